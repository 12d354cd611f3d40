"""The commands ``run``, one per learner."""
