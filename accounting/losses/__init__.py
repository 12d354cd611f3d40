"""Laws of the privacy loss: dominating pairs, their moments and their grids."""
