"""Names that people guess: what to suggest for an attribute or an argument that does not exist."""
