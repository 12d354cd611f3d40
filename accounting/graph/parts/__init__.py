"""The nodes of an accountant graph, the charges of a move, and the placements of a group."""
