"""Targets with a known claim: every mechanism and learner, and mutants that must be refuted."""
