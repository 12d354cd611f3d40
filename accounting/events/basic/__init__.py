"""What an event is, and events built from events, curves, laws or a claim."""
