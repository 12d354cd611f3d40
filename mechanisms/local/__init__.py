"""Reports randomised by each client alone."""
