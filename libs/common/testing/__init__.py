"""Fakes of what the services need from outside, held to the real thing by tests/contract."""
