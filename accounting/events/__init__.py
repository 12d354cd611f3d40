"""The costs of mechanisms: every kind of event, and the catalogue that files may name."""
