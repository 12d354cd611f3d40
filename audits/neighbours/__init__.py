"""The search for the pair of neighbouring data sets on which a claim fails most clearly."""
