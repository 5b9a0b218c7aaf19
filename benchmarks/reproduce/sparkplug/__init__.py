"""The experiments of the sparkplug paper."""
