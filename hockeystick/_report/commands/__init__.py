"""The content of each command's report."""
