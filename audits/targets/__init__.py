"""How a target is called, and targets made of recorded outputs or statistics."""
