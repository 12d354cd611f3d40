"""Reports on statistics of a table."""
