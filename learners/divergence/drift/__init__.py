"""Watching a KL divergence over time, and alarms on it."""
