"""Private estimation of KL divergence between many clients and the public."""
