"""The experiments of the statements paper."""
