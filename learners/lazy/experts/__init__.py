"""Lazy online learning over finitely many experts."""
