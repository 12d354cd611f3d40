"""What all commands share: options, types, files, output and exit codes."""
