"""Sums over a stream: tree aggregation and factorised matrices."""
