"""Streams over tables: offsets, the tail of the log as a stream of files, the source, the sink."""
