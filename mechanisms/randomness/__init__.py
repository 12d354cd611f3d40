"""Sources of noise: exact laws on the integers, secure random bits and grids."""
