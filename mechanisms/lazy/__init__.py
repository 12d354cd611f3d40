"""Lazy switching: an answer is kept unless a coin says otherwise."""
