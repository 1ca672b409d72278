"""Reading tables with Spark: the native file index, and the portable way on public API alone."""
