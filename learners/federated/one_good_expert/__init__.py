"""Federated experts where one expert is almost always right (sparse vector)."""
