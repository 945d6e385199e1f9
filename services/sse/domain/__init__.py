"""Decisions about streams."""
