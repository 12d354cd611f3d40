"""Adapters that make targets of other libraries' mechanisms."""
