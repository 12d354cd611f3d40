"""Targets of online distribution learning under local privacy."""
