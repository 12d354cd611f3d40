"""Targets that are other systems: recorded files, programs, web services, databases, generators of synthetic data."""
