"""Private query release for smooth data."""
