"""Commands for statistics of a table: by group, and of one column."""
