"""What learners of several papers share."""
