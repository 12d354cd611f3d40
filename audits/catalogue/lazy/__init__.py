"""Targets of private lazy online learning."""
