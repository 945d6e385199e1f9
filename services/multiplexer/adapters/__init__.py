"""What the multiplexer uses of Kafka."""
