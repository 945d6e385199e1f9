"""Streams over one tail and their own scans, in every order of what can happen."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from libs.common.partitions import ConsumedRecord, Partition
from services.sse.domain.cursor import Cursor, Phase, Tail, Tails

PARTITION = Partition("subscribed-7d", 0)
LANES = (b"a", b"b")
ROOM = 6
"""Units of a consumer's queue; records differ in size."""


def size_of(offset: int) -> int:
    return offset % 3 + 1


class Consumer:
    """A stream with a small queue, the cursor that feeds it, and the scan under way."""

    def __init__(self, lane: bytes, start: int) -> None:
        self.lane = lane
        self.start = start
        self.queue: list[int] = []
        self.received: list[int] = []
        self.cursor = Cursor(PARTITION, lane, self.take, start)
        self.scan_position = start

    def take(self, record: ConsumedRecord) -> bool:
        if sum(map(size_of, self.queue)) + size_of(record.offset) > ROOM:
            return False
        self.queue.append(record.offset)
        return True

    def drain(self) -> None:
        self.received += self.queue
        self.queue.clear()


class Streams(RuleBasedStateMachine):
    """A log that grows; consumers that come, read, stall and go."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[bytes] = []
        self.tails = Tails()
        self.consumers: list[Consumer] = []
        self.followed: list[tuple[Tail, int]] = []
        """Tails that the reader was told to follow, with its position in each."""
        self.in_flight: list[tuple[Tail, list[ConsumedRecord]]] = []
        """Batches on their way from the reader's thread."""

    def records(self, start: int, number: int) -> list[ConsumedRecord]:
        return [
            ConsumedRecord(PARTITION, offset, 0, self.log[offset], b"")
            for offset in range(start, min(start + number, len(self.log)))
        ]

    @rule(lanes=st.lists(st.sampled_from(LANES), min_size=1, max_size=8))
    def write(self, lanes: list[bytes]) -> None:
        self.log += lanes

    @precondition(lambda self: len(self.consumers) < 4)
    @rule(lane=st.sampled_from(LANES), back=st.integers(0, 12))
    def connect(self, lane: bytes, back: int) -> None:
        self.consumers.append(Consumer(lane, max(len(self.log) - back, 0)))

    @precondition(lambda self: self.behind())
    @rule(data=st.data(), number=st.integers(1, 4))
    def scan(self, data: st.DataObject, number: int) -> None:
        consumer = data.draw(st.sampled_from(self.behind()))
        cursor = consumer.cursor
        position = max(consumer.scan_position, cursor.next_offset)
        batch = self.records(position, number)
        position += len(batch)
        own = [record for record in batch if record.key == consumer.lane]
        tail = self.tails.scanned(cursor, own, position=position, is_end=position == len(self.log))
        consumer.scan_position = position if cursor.phase is Phase.BEHIND else 0
        if tail is not None:
            self.followed.append((tail, tail.next_offset))

    @precondition(lambda self: self.followed)
    @rule(data=st.data(), number=st.integers(1, 4))
    def read_tail(self, data: st.DataObject, number: int) -> None:
        index = data.draw(st.integers(0, len(self.followed) - 1))
        tail, position = self.followed[index]
        batch = self.records(position, number)
        self.followed[index] = (tail, position + len(batch))
        self.in_flight.append((tail, batch))

    @precondition(lambda self: self.in_flight)
    @rule()
    def arrive(self) -> None:
        tail, batch = self.in_flight.pop(0)
        if not self.tails.arrived(tail, batch):
            self.unfollow(tail)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        consumer.drain()
        if consumer.cursor.phase is Phase.FULL:
            consumer.cursor.phase = Phase.BEHIND
            consumer.scan_position = consumer.cursor.next_offset

    @precondition(lambda self: len(self.consumers) > 2)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        unread = self.tails.close(consumer.cursor)
        if unread is not None:
            self.unfollow(unread)

    @precondition(lambda self: self.followed and len(self.log) % 7 == 0)
    @rule(data=st.data())
    def lose_tail(self, data: st.DataObject) -> None:
        tail, _ = data.draw(st.sampled_from(self.followed))
        for cursor in self.tails.broken(tail):
            next(one for one in self.consumers if one.cursor is cursor).scan_position = 0
        self.unfollow(tail)

    def unfollow(self, tail: Tail) -> None:
        self.followed = [(one, position) for one, position in self.followed if one is not tail]

    def behind(self) -> list[Consumer]:
        return [one for one in self.consumers if one.cursor.phase is Phase.BEHIND]

    def expected(self, consumer: Consumer) -> list[int]:
        return [o for o in range(consumer.start, len(self.log)) if self.log[o] == consumer.lane]

    @invariant()
    def nothing_is_skipped_repeated_or_reordered(self) -> None:
        for consumer in self.consumers:
            got = consumer.received + consumer.queue
            assert got == self.expected(consumer)[: len(got)]
            position = self.tails.position(consumer.cursor)
            assert got == [o for o in self.expected(consumer) if o < position]

    @invariant()
    def queues_are_bounded(self) -> None:
        assert all(sum(map(size_of, one.queue)) <= ROOM for one in self.consumers)

    def teardown(self) -> None:
        """Whoever reads on gets everything."""
        for _ in range(4 * len(self.log) + 20):
            for consumer in self.consumers:
                consumer.drain()
                if consumer.cursor.phase is Phase.FULL:
                    consumer.cursor.phase = Phase.BEHIND
                    consumer.scan_position = consumer.cursor.next_offset
                if consumer.cursor.phase is Phase.BEHIND:
                    self.scan_all_of(consumer)
            for index, (tail, position) in enumerate(self.followed):
                batch = self.records(position, 2)
                self.followed[index] = (tail, position + len(batch))
                self.in_flight.append((tail, batch))
            while self.in_flight:
                self.arrive()
        for consumer in self.consumers:
            consumer.drain()
            assert consumer.received == self.expected(consumer)

    def scan_all_of(self, consumer: Consumer) -> None:
        position = consumer.cursor.next_offset
        batch = self.records(position, len(self.log))
        own = [record for record in batch if record.key == consumer.lane]
        tail = self.tails.scanned(consumer.cursor, own, position=position + len(batch), is_end=True)
        if tail is not None:
            self.followed.append((tail, tail.next_offset))


Streams.TestCase.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestStreams = Streams.TestCase


def log_of(*lanes: bytes) -> list[ConsumedRecord]:
    return [ConsumedRecord(PARTITION, n, 0, lane, b"") for n, lane in enumerate(lanes)]


def live(tails: Tails, consumer: Consumer) -> Tail:
    """The consumer's tail, which begins at the end of an empty partition."""
    tail = tails.scanned(consumer.cursor, [], position=consumer.start, is_end=True)
    assert tail is not None
    return tail


def test_a_small_record_does_not_pass_a_large_one_that_found_no_room() -> None:
    tails, consumer = Tails(), Consumer(b"a", 0)
    tail = live(tails, consumer)
    records = log_of(*[b"a"] * 7)  # of sizes 1, 2, 3, 1, 2, 3, 1
    assert not tails.arrived(tail, records)
    assert consumer.queue == [0, 1, 2]
    assert (consumer.cursor.phase, consumer.cursor.next_offset) == (Phase.FULL, 3)


def test_a_batch_of_a_tail_that_was_given_up_is_not_taken_for_its_successors() -> None:
    tails, consumer = Tails(), Consumer(b"a", 0)
    old = live(tails, consumer)
    assert tails.close(consumer.cursor) is old
    successor = Consumer(b"a", 0)
    new = live(tails, successor)
    assert not tails.arrived(old, log_of(b"b", b"b", b"a")[2:])
    assert successor.queue == []
    assert tails.arrived(new, log_of(b"a", b"a"))
    assert successor.queue == [0, 1]
