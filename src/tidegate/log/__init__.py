"""The transaction log: names, segments, replay, snapshots, checkpoints, checksums, retention."""
