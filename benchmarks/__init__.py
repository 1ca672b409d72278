"""Benchmarks: Tidegate side by side with its peers, measured in one run. ``make bench`` runs them."""
