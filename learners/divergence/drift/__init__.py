"""Monitors and alarms for a KL divergence over time."""
