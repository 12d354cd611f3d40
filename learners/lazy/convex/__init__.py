"""Lazy online learning over convex sets."""
