"""Kafka, the other replicas and the name service, as the use cases need them."""
