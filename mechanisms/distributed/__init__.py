"""Noise that several parties add together, and sums that nobody sees in parts."""
