"""Federated experts with stochastic losses."""
