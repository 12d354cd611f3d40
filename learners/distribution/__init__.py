"""Online distribution learning under local privacy."""
