"""The accountant graph, which records who reads which data at what cost, and the guarantee that follows."""
