"""Samples of a target: in blocks, on several processes, with checkpoints."""
