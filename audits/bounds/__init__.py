"""Lower bounds on ε from counts, with their confidence level."""
