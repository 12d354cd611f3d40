"""Losses of experts and multiplicative weights on them."""
