"""Who has a lane, and how far its streams have come: the topic `streams` as a value. Pure.

A claim's epoch is its offset; the highest claim of a lane has it. Checkpoints carry the epoch in
their key, so what a former owner still writes never covers what its successor writes.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Self

from libs.common.ids import LaneId
from libs.common.records import Claim, StreamCheckpoint, StreamRecord

NOBODY = -1
"""The epoch of a lane that was never claimed."""


class Place(NamedTuple):
    """A lane in its partition; the topic is without prefix."""

    topic: str
    partition: int
    lane_id: LaneId

    @property
    def claim_key(self) -> str:
        """Key of claims in `streams`."""
        return f"{self.topic}/{self.partition}/{self.lane_id}"

    def checkpoint_key(self, epoch: int) -> str:
        """Key of an epoch's checkpoint in `streams`."""
        return f"{self.claim_key}/{epoch}"

    @classmethod
    def of(cls, key: str) -> Self:
        """The place in either kind of key; raises ValueError."""
        topic, partition, lane_id, *_ = key.split("/")
        return cls(topic, int(partition), LaneId(lane_id))


@dataclass(slots=True)
class Claims:
    """All claims and checkpoints that this process has read."""

    _claims: dict[LaneId, dict[Place, int]] = field(default_factory=dict)
    _checkpoints: dict[Place, dict[int, StreamCheckpoint]] = field(default_factory=dict)

    def apply(self, key: str, record: StreamRecord | None, offset: int) -> LaneId:
        """Takes over one record of `streams`; None is a tombstone. Raises ValueError."""
        place = Place.of(key)
        is_checkpoint = key != place.claim_key
        match record:
            case Claim():
                self._claims.setdefault(place.lane_id, {})[place] = offset
            case StreamCheckpoint():
                self._checkpoints.setdefault(place, {})[record.epoch] = record
            case None if is_checkpoint:
                self._checkpoints.get(place, {}).pop(int(key.rsplit("/", 1)[1]), None)
            case None:
                self._claims.get(place.lane_id, {}).pop(place, None)
        return place.lane_id

    def epoch(self, lane_id: LaneId) -> int:
        """The epoch that has the lane: all places of a lane are in one partition of `streams`."""
        return max(self._claims.get(lane_id, {}).values(), default=NOBODY)

    def checkpoint(self, place: Place) -> StreamCheckpoint | None:
        """The checkpoint of the highest epoch that wrote one."""
        found = self._checkpoints.get(place)
        return found[max(found)] if found else None

    def epochs_below(self, place: Place, epoch: int) -> list[int]:
        """Epochs whose checkpoints a newer one has replaced."""
        return sorted(found for found in self._checkpoints.get(place, {}) if found < epoch)
