"""The use cases: opening a stream, running it, ending it."""
