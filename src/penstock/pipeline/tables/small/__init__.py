"""Tables of few rows without Spark: as much of its tables and columns as jobs over a sample need, on Arrow."""
