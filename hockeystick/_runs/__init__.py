"""The work of the commands, without the command line."""
