"""Decisions of the publish service. Pure: no I/O, clock, randomness or logging."""
