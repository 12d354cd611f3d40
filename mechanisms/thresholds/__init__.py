"""Queries compared with a threshold."""
