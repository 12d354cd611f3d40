"""The estimators and claims as the paper prints them."""
