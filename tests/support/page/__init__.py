"""Pages that people read, and their commands run as they stand there."""
