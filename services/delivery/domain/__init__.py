"""Decisions of delivery, as pure functions and values."""
