"""Channels from a private label to one message about it."""
