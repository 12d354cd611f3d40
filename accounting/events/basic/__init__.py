"""The base class of events, and events built from events, curves, laws or a claimed guarantee."""
