"""Decisions of the multiplexer, as pure functions and values."""
