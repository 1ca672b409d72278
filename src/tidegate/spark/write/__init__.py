"""Writing tables with Spark: fit to schema, constraints, the delayed commit protocol, statistics."""
