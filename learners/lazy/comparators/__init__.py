"""Other private learners of experts, to compare with."""
