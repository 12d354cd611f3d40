"""Events to and from other libraries."""
