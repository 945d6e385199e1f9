"""What the stream service uses of Kafka."""
