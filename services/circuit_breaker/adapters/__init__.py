"""What connects the use cases with Kafka."""
