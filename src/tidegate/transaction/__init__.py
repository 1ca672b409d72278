"""Optimistic concurrency: a transaction records what it read and publishes all of it or nothing."""
