"""Online learners for a number of rounds that is not known, by restarts in epochs of growing length."""
