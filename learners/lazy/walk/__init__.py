"""The walk of epochs that all lazy learners take: its plan and its simulation."""
