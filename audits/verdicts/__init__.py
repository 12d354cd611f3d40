"""Verdicts of audits: their fields, their text and JSON, and the trade-off curve that they bound."""
