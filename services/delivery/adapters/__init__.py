"""What delivery uses of Kafka and HTTP."""
