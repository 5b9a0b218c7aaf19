"""The simulation that the trust paper announces."""
