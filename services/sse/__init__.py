"""Streams a subscription's events to a connected consumer."""
