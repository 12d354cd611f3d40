"""Clipping, bounded contributions, sampled records and groups."""
