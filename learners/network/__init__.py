"""Rounds between a server and clients, in one process or on Flower."""
