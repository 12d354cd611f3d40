"""Results as reports: what is said of them, and the forms it takes."""
