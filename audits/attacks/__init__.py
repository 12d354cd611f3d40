"""Which event of the outputs separates two neighbours best, chosen on samples of its own."""
