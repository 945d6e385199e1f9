"""What a record on `dead-letters` says of itself, whoever set it aside. Pure."""

from libs.common.partitions import Partition


def headers(partition: Partition, offset: int, *, reason: str) -> list[tuple[str, bytes]]:
    """Where a dead letter came from and why it is one."""
    return [
        ("reason", reason.encode()),
        ("topic", partition.topic.encode()),
        ("partition", str(partition.number).encode()),
        ("offset", str(offset).encode()),
    ]
