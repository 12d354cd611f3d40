"""Sequential audits, which stop as soon as the evidence suffices."""
