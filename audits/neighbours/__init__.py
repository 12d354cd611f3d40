"""Search for the pair of neighbours on which a claim fails most visibly."""
