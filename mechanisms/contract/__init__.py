"""What every mechanism is, and the arguments that it checks."""
