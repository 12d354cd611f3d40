"""What a report says of the result of each command."""
