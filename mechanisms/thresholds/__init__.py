"""Sparse vector techniques: streams of queries compared with a noisy threshold."""
