"""The parts that all cases of the catalogue share."""
