"""Experiments of the papers, done again with Penstock: one folder, one command and one figure for each."""
