"""Intervals, rectangles and covers found by an oracle."""
