"""Experiments whose tables and figures are in the documentation, each run by its name.

    python -m benchmarks.experiments NAME [--write]

prints the table of an experiment and its checks; the exit status is 1 if a check does not hold.
"""
