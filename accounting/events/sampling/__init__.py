"""Events of accesses to a secret sample of the records, and of accesses that a coin chooses."""
