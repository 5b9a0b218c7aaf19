"""Fig. 6 of the brokering paper done again; see README.md."""
