"""Targets of smoothed online learning and private query release."""
