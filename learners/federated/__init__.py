"""Federated experts: hedging under noise, limited updates, lower bounds."""
