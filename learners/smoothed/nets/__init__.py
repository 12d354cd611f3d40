"""Private agnostic learning over nets."""
