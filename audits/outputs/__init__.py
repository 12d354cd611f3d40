"""Numbers and features that are read from outputs of any type."""
