"""Smoothed online learning: games, adversaries, Hedge."""
