"""Noise that several clients add in shares, and secure aggregation of their sums."""
