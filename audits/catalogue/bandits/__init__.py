"""Targets of private bandits."""
