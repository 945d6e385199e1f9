"""Source sequences: how a reader sees that a record is a repeat.

In any one output partition the records made from one source partition ascend in
(leader epoch, offset, bytes of the subscription id). After a crash or a hand-over only a repeat of
what is already there can follow. So a reader keeps the highest position seen per source partition
and drops what is not above it. The proof is in docs/decisions/0002-source-sequences.md.
"""

from collections.abc import Iterable, Mapping

from libs.common.records import Source

Position = tuple[int, int, str]
"""(leader epoch, offset, subscription id); Python orders ASCII ids as their bytes."""


def source_key(source: Source) -> str:
    """`topicId/partition`: a topic that was created again starts a new sequence."""
    return f"{source.topic_id}/{source.partition}"


def position_of(source: Source, subscription_id: str) -> Position:
    """The place of a record in its source sequence."""
    return (source.leader_epoch, source.offset, subscription_id)


class RepeatFilter:
    """The highest position seen per source partition, for one output partition.

    Bound: one entry per source partition and topic incarnation that the partition ever held.
    """

    def __init__(self, highest: Mapping[str, Position] | None = None) -> None:
        self._highest: dict[str, Position] = {
            k: (v[0], v[1], v[2]) for k, v in (highest or {}).items()
        }

    def is_repeat(self, key: str, position: Position) -> bool:
        """True when the record was seen before; changes nothing."""
        seen = self._highest.get(key)
        return seen is not None and position <= seen

    def advance(self, key: str, position: Position) -> None:
        """Remembers a record as seen; positions never move back."""
        if not self.is_repeat(key, position):
            self._highest[key] = position

    def accept(self, key: str, position: Position) -> bool:
        """Remembers the record and returns True, or returns False for a repeat."""
        if self.is_repeat(key, position):
            return False
        self._highest[key] = position
        return True

    def state(self) -> dict[str, Position]:
        """A copy that another filter can start from."""
        return dict(self._highest)


def ascending(subscription_ids: Iterable[str]) -> list[str]:
    """Subscription ids in the order in which one event's records have to be produced."""
    return sorted(subscription_ids, key=lambda name: name.encode())
