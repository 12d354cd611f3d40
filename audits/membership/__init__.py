"""Membership inference on trained models, from scores of members and non-members."""
