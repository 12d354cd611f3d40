"""Lazy switching: an action is kept from step to step unless a coin decides otherwise."""
