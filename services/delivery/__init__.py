"""Calls subscribers back: lanes, retries, durable progress."""
