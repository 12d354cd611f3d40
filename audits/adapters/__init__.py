"""Targets made of other libraries' mechanisms."""
