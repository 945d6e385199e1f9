"""The services: one process each, meeting only on Kafka topics."""
