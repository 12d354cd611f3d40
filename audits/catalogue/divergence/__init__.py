"""Targets of the private estimation of KL divergence."""
