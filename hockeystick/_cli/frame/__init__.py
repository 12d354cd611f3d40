"""The options, option types, files, output and exit codes that all commands share."""
