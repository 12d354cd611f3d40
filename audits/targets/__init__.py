"""The calling conventions of targets, and targets made of recorded outputs or statistics."""
