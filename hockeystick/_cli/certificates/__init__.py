"""The command that checks certificates."""
