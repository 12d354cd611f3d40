"""Numbers and guarantees as text."""
