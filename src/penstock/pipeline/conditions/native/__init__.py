"""Conditions as Spark's own expressions: `compiler.py` goes through the tree, the other modules know one thing each."""
