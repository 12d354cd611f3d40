"""Audits that stop as soon as the evidence is enough."""
