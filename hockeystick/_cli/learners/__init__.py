"""The commands `run`: a learner each."""
