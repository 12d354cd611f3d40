"""Experiments whose tables and figures stand in the documentation, each a command of its own.

    python -m benchmarks.experiments.NAME [--write]

computes, prints its table and what the table is to show, and ends with a status other than 0 if that does not hold.
"""
