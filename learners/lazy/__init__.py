"""Private lazy online learning."""
