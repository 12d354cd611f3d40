"""Smoothed online learning and private query release."""
