"""The accountant graph: who reads which data at what cost, and the guarantee that follows."""
