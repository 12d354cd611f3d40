"""Events on a secret sample of the records, and events that a secret coin chooses."""
