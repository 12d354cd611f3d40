"""Audits of one run with many canaries."""
