"""The lazy transformation of any learner with bounded density ratios."""
