"""Private estimates of the KL divergence between a public reference and the data of many clients."""
