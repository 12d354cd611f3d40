"""The work of the commands that release answers about one table."""
