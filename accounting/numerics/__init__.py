"""Numbers with a direction: sums, transforms and texts that never round the wrong way."""
