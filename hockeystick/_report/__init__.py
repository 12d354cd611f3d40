"""Results as reports: their content and their forms."""
