"""Halfspaces."""
