"""Targets from the literature, faulty ones among them."""
