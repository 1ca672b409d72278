"""Checkpoints: the hint that points at one, reading every form of them, and writing them."""
