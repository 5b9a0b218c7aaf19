"""Analyses of a domain without running it."""
