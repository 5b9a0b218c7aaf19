"""Measurements of the node beside other brokers; see README.md."""
