"""The use cases of delivery: owning partitions, and making callbacks."""
