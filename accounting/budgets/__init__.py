"""Spending a budget: calibration, ledgers, filters, odometers and splits."""
