"""The estimators and the claims as printed in the paper."""
