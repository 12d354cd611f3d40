"""Private selection of one candidate or of several."""
