"""Auditors of other libraries, rated on the same targets."""
