"""What can be shown of a domain without running it."""
