"""Transforms and wrappers of data: clipping, bounded contributions, sampled records and groups."""
