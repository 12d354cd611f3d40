"""What all cases of the catalogue share."""
