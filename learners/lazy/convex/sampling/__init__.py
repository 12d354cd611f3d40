"""Exact and approximate samplers of log-concave laws."""
