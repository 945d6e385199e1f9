"""Where reading of a partition of `published` begins. Pure.

The text committed beside an offset names the topic's id and the partition count of `subscribed-*`:
an offset means something only in the topic that it was committed for, and an output's place only
under the partition count that it was written with.
"""

import msgspec

from libs.common.errors import PermanentError


class CommitNote(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The text beside a committed offset."""

    topic_id: str
    subscribed_partitions: int


def note_text(note: CommitNote) -> str:
    """The note as it is committed."""
    return msgspec.json.encode(note).decode()


def start_offset(*, committed: int | None, text: str, low: int, now: CommitNote) -> int:
    """The offset to read from, `low` being the first that is still there.

    Raises PermanentError when the partition count of `subscribed-*` changed.
    """
    if committed is None or not text:
        return low
    note = msgspec.json.decode(text, type=CommitNote)
    if note.subscribed_partitions != now.subscribed_partitions:
        raise PermanentError(
            f"subscribed-* had {note.subscribed_partitions} partitions and has "
            f"{now.subscribed_partitions} now; their number is fixed at creation, because a "
            "subscription's place depends on it"
        )
    if note.topic_id != now.topic_id:
        return low
    return max(committed, low)
