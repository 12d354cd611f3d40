"""Files and texts of unknown origin, read within limits."""
