"""The choice of an event that separates two neighbouring data sets, on samples set aside for it."""
