"""Audits of a single run with many canaries."""
