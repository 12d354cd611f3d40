"""Sections, tables and plots that reports are made of."""
