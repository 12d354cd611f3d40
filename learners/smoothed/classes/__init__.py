"""Concept classes and their covers by brackets."""
