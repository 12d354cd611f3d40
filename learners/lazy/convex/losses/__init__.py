"""Convex losses, their sums, and the Gibbs measure of a sum."""
