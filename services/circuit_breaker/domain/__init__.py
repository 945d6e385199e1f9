"""Decisions of the circuit breaker: pure functions."""
