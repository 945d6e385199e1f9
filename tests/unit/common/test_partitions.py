"""The partitioner, by the vectors of Kafka's own tests."""

import pytest

from libs.common.partitions import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


def test_a_partition_is_never_negative() -> None:
    assert partition_of(b"21", 16) == (-973932308 & 0x7FFFFFFF) % 16
