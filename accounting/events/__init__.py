"""Privacy events, the costs of mechanisms, and the catalogue of those that files may name."""
