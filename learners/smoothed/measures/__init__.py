"""Base measures, smooth data and projections between laws."""
