"""Counts of ordered cells: noise on sums over a tree, answers by least squares, a bound, and the choice of the tree."""
