"""The protocol that every mechanism follows, and the checks of its arguments."""
