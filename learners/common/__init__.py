"""Pieces that learners of several papers share."""
