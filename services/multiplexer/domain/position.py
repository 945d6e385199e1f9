"""Where reading of a partition of `published` begins. Pure.

The text committed beside an offset names the topic's id and the partition count of `subscribed-*`:
an offset means something only in the topic that it was committed for, and an output's place only
under the partition count that it was written with.
"""

import msgspec

from libs.common.errors import PermanentError
from libs.common.partitions import CommittedOffset


class CommitNote(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The text beside a committed offset."""

    topic_id: str
    subscribed_partitions: int


def note_text(note: CommitNote) -> str:
    """The note as it is committed."""
    return msgspec.json.encode(note).decode()


def start_offset(found: CommittedOffset, *, now: CommitNote) -> int:
    """The offset to read from; the first that is there when the topic was created again.

    Raises PermanentError when the partition count of `subscribed-*` changed.
    """
    if found.offset is None or not found.metadata:
        return found.low
    note = msgspec.json.decode(found.metadata, type=CommitNote)
    if note.subscribed_partitions != now.subscribed_partitions:
        raise PermanentError(
            f"subscribed-* had {note.subscribed_partitions} partitions and has "
            f"{now.subscribed_partitions} now; their number is fixed at creation, because a "
            "subscription's place depends on it"
        )
    if note.topic_id != now.topic_id:
        return found.low
    return found.start()
