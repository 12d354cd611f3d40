"""Secure sums of clients that share a key with each other client: the plan, a client, a server, messages."""
