"""The work of ``hockeystick run`` with online learners: their streams, plans and runs."""
