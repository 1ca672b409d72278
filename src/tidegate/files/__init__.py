"""What the log says of data files: statistics, partition values, deletion vectors, row ids, skipping."""
