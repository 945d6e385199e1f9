"""What the publish service needs from outside, on Kafka."""
