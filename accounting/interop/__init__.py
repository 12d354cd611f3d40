"""Translations of events from and to other libraries, and accountants for them."""
