"""Audits by guesses of the data set: outputs are drawn by coins, and the scores that guess learn from earlier ones."""
