"""Targets of mechanisms."""
