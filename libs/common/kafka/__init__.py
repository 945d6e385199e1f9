"""Kafka clients in the shape that the services need: one thread each, batches to the event loop."""
