"""Channels by which a client answers one question about its label."""
