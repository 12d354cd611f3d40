"""Sets where polynomials are positive."""
