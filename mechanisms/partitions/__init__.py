"""Private selection of partitions: of the keys of groups those that many persons have, as others give one away."""
