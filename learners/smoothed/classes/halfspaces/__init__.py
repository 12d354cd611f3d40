"""Halfspaces, polytopes and classes of small sign rank."""
