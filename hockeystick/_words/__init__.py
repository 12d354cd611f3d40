"""Numbers and guarantees in words."""
