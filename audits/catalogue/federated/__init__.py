"""Targets of federated experts."""
