"""The nodes of an accountant graph, and how a group of changed records spreads over them."""
