"""Benchmarks: the platform beside the least that could do the same work, in alternating runs."""
