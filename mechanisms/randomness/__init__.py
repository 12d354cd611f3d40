"""Where noise comes from: exact laws, cryptographic digits and grids."""
