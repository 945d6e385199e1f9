"""Source sequences, with all the rules of decision 0002 and with each of them switched off.

Two multiplexers crash, stall and take over from each other at any point. Every copy that an event
was promised has to be accepted exactly once, in order; with any rule missing that fails.
"""

from collections import Counter, defaultdict
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from services.multiplexer.domain.parsing import Readable, parse
from tests.unit.multiplexer.sequences_member import Committed, Group, Member
from tests.unit.multiplexer.sequences_world import (
    SOURCE_PARTITIONS,
    Broker,
    Copy,
    Event,
    Fault,
    Place,
    Published,
    PublishedRecord,
    Reader,
    ResourceLog,
    Size,
)

MEMBERS = 2
ALL = 1_000_000
ROUTES_MAX = 3
POISON = b"not an event"
NAMES = ("c", "a", "b", "B")
CRASHES_MAX = 3


class Wish(NamedTuple):
    """A change of `resources`."""

    name: str
    is_deleted: bool
    retention_class: str
    has_long_url: bool


class Publish(NamedTuple):
    """An event, and how far behind its publisher's `resources` are."""

    partition: int
    lag: int
    size: Size
    is_poison: bool


class Work(NamedTuple):
    """What one member does in one step; a portion has two bits for each queue or partition.

    Numbers instead of lists: most of the time of a run goes into drawing values.
    """

    member: int
    documents: int
    routes: int
    stores: int
    acknowledgements: int
    commits: bool


def portion(portions: int, number: int) -> int:
    """How many; the largest stands for all."""
    bits = portions >> 2 * number & 3
    return ALL if bits == 3 else bits


class Turn(StrEnum):
    """What happens at the end of a turn."""

    NOTHING = "NOTHING"
    CRASH = "CRASH"
    TAKE_OVER = "TAKE_OVER"
    """The former owner does not notice, and goes on."""
    HAND_OVER = "HAND_OVER"
    LOSE = "LOSE"
    """A former owner notices."""
    LEADER = "LEADER"
    CREATE_AGAIN = "CREATE_AGAIN"
    REPLAY = "REPLAY"
    READER = "READER"


WISHES = st.builds(
    Wish,
    name=st.sampled_from(NAMES),
    is_deleted=st.sampled_from([False, False, True]),
    retention_class=st.sampled_from(["7d", "1h"]),
    has_long_url=st.booleans(),
)
PUBLISHES = st.builds(
    Publish,
    partition=st.integers(0, SOURCE_PARTITIONS - 1),
    lag=st.integers(0, 2),
    size=st.sampled_from([Size.SMALL] * 6 + [Size.NEAR] * 3 + [Size.LARGE]),
    is_poison=st.sampled_from([False] * 9 + [True]),
)
PORTIONS = st.integers(0, 4**6 - 1)
WORK = st.builds(
    Work,
    member=st.integers(0, MEMBERS - 1),
    documents=st.integers(0, 3),
    routes=st.integers(0, 4**SOURCE_PARTITIONS - 1),
    stores=PORTIONS,
    acknowledgements=PORTIONS,
    commits=st.booleans(),
)


class SourceSequences(RuleBasedStateMachine):
    """`published`, two multiplexers, and a reader for each output partition."""

    def __init__(self, fault: Fault | None = None) -> None:
        super().__init__()
        self.fault = fault
        self.resources = ResourceLog(forgets_places=fault is Fault.FORGETS)
        self.published = Published()
        self.broker = Broker()
        self.group = Group()
        self.members = [Member(fault) for _ in range(MEMBERS)]
        self.readers: defaultdict[Place, Reader] = defaultdict(
            partial(Reader, has_one_key=fault is Fault.ONE_KEY)
        )
        self.promised: set[Copy] = set()
        self.accepted: Counter[Copy] = Counter()
        self.replays: Counter[Copy] = Counter()
        """Under a fault: how often a copy has to be accepted once more."""
        self.only: dict[Event, str] = {}
        """The one subscription that a replay is for."""
        self.latest: dict[tuple[Place, int], tuple[str, int, bytes]] = {}

    @initialize(
        wishes=st.lists(WISHES, min_size=2, max_size=4), owners=st.integers(0, MEMBERS**2 - 1)
    )
    def begin(self, wishes: list[Wish], owners: int) -> None:
        for wish in wishes:
            self.change(wish)
        for partition in range(SOURCE_PARTITIONS):
            self.take(partition, owners >> partition & 1)

    @rule(
        wishes=st.lists(WISHES, max_size=2),
        publishes=st.lists(PUBLISHES, max_size=2),
        works=st.lists(WORK, min_size=1, max_size=2),
        end=st.sampled_from([*Turn, Turn.CRASH, Turn.TAKE_OVER]),
        pick=st.integers(0, 15),
    )
    def turn(
        self,
        wishes: list[Wish],
        publishes: list[Publish],
        works: list[Work],
        end: Turn,
        pick: int,
    ) -> None:
        """One rule for all: hypothesis leaves out some rules of a machine in most of its runs."""
        for wish in wishes:
            self.change(wish)
        for publish in publishes:
            self.publish(publish)
        for work in works:
            self.work(work)
        self.end_turn(end, pick)
        self.read()

    def teardown(self) -> None:
        """Everybody crashes; one new member finishes, and everything promised has arrived."""
        for number in range(MEMBERS):
            self.members[number] = Member(self.fault)
        fault = None if self.fault is Fault.GIVES_UP_RECORDS else self.fault
        for _ in range(CRASHES_MAX):
            if self.finish(Member(fault)):
                break
        self.read()
        for partition, log in enumerate(self.published.partitions):
            if log:
                assert self.group.committed[partition].offset == len(log), "stuck"
            for record in log:
                self.check_routed(record)
        for copy in self.promised:
            is_set_aside = copy in self.broker.set_aside.copies
            wanted = 1 + self.replays[copy]
            assert is_set_aside or self.accepted[copy] == wanted, f"lost: {copy}"

    def check_routed(self, record: PublishedRecord) -> None:
        """What can be read has a routing record, what cannot be read is set aside."""
        parsed = parse(record.value)
        if isinstance(parsed, Readable):
            assert parsed.event.uuid in self.broker.routed, "lost: a routing record"
        else:
            assert record.value in self.broker.set_aside.records

    def finish(self, member: Member) -> bool:
        """Does everything that is left; False when Kafka's refusal ended the process."""
        member.follow(self.resources, ALL)
        for partition in range(SOURCE_PARTITIONS):
            member.take(partition, self.group, self.published)
            while member.route(partition, self.published):
                pass
        if not self.flush(member):
            return False
        member.commit(self.group)
        return True

    def change(self, wish: Wish) -> None:
        """What a subscription that is deleted was promised is void."""
        if not wish.is_deleted:
            self.resources.subscribe(
                wish.name, retention_class=wish.retention_class, has_long_url=wish.has_long_url
            )
        elif wish.name in self.resources.names_at(self.resources.end):
            self.resources.unsubscribe(wish.name)
            self.promised = {(event, name) for event, name in self.promised if name != wish.name}

    def publish(self, publish: Publish) -> None:
        if publish.is_poison:
            self.published.append(publish.partition, POISON)
            return
        known = max(0, self.resources.end - publish.lag)
        value = self.published.value(known, publish.size)
        event = self.published.append(publish.partition, value)
        self.promise(event, self.resources.names_at(known), known)

    def promise(self, event: Event, names: set[str], known: int) -> None:
        """Copies for subscriptions that the publisher knew, and that were not deleted since."""
        gone = {one.id for _, one in self.resources.documents[known:] if one.status.deleted}
        self.promised |= {(event, name) for name in names - gone}

    def work(self, work: Work) -> None:
        member = self.members[work.member]
        member.follow(self.resources, work.documents)
        for partition in range(SOURCE_PARTITIONS):
            for _ in range(min(portion(work.routes, partition), ROUTES_MAX)):
                member.route(partition, self.published)
        for number, place in enumerate(member.places()):
            if not member.store(place, portion(work.stores, number), self.broker):
                self.crash(work.member)
                return
            member.acknowledge(place, portion(work.acknowledgements, number))
        if work.commits:
            member.commit(self.group)

    def end_turn(self, end: Turn, pick: int) -> None:
        number, partition = pick & 1, pick >> 1 & 1
        match end:
            case Turn.CRASH:
                self.crash(number)
            case Turn.TAKE_OVER | Turn.HAND_OVER | Turn.LOSE:
                self.rebalance(end, partition, number)
            case Turn.LEADER:
                self.published.epochs[partition] += 1
            case Turn.CREATE_AGAIN:
                self.create_again()
            case Turn.REPLAY:
                self.replay(partition, pick >> 2)
            case Turn.READER:
                self.crash_or_save_readers(pick)

    def rebalance(self, end: Turn, partition: int, number: int) -> None:
        if end is Turn.LOSE:
            self.lose(number)
            return
        if end is Turn.HAND_OVER:
            self.release(partition)
        self.take(partition, number)

    def take(self, partition: int, number: int) -> None:
        self.members[number].take(partition, self.group, self.published)

    def crash(self, number: int) -> None:
        """What it had queued is gone; the other one takes over, and it starts again."""
        left = list(self.members[number].states)
        self.members[number] = Member(self.fault)
        self.members[number].follow(self.resources, ALL)
        for partition in left:
            self.take(partition, 1 - number)

    def release(self, partition: int) -> None:
        """Everything of the owner is stored and committed before the partition goes."""
        for member in self.members:
            state = member.states.get(partition)
            if state is not None and state.generation == self.group.generations[partition]:
                if self.flush(member):
                    member.commit(self.group)
                del member.states[partition]

    def flush(self, member: Member) -> bool:
        """False when Kafka refused a record, which ends the process."""
        while places := member.places():
            for place in places:
                if not member.store(place, ALL, self.broker):
                    return False
                member.acknowledge(place, ALL)
        return True

    def lose(self, number: int) -> None:
        member = self.members[number]
        for partition, state in list(member.states.items()):
            if state.generation != self.group.generations[partition]:
                del member.states[partition]

    def create_again(self) -> None:
        """While no multiplexer runs; what was not accepted by then is gone with the topic.

        Publishers do not wait until one runs again.
        """
        self.members = [Member(self.fault) for _ in range(MEMBERS)]
        self.read()
        self.promised = {copy for copy in self.promised if self.accepted[copy]}
        self.published.create_again()
        for partition in range(SOURCE_PARTITIONS):
            self.publish(Publish(partition, lag=0, size=Size.SMALL, is_poison=False))
        for number, member in enumerate(self.members):
            member.follow(self.resources, ALL)
            self.take(number % SOURCE_PARTITIONS, number)

    def replay(self, partition: int, pick: int) -> None:
        """An event once more, for some of the subscriptions that got it."""
        delivered = [
            (event, name)
            for event, name in sorted(self.promised)
            if event[:2] == (self.published.topic_id, partition) and self.accepted[event, name]
        ]
        if not delivered:
            return
        event, name = delivered[pick % len(delivered)]
        if self.fault is Fault.SETS_BACK:
            metadata = self.group.committed[partition].metadata
            self.group.committed[partition] = Committed(event[2], metadata)
            self.replays[event, name] += 1
            self.take(partition, pick & 1)
            return
        known = self.resources.end
        value = self.published.value(known, Size.SMALL, only=[name])
        again = self.published.append(partition, value)
        self.only[again] = name
        self.promise(again, {name} & self.resources.names_at(known), known)

    def crash_or_save_readers(self, pick: int) -> None:
        for number, place in enumerate(sorted(self.readers)):
            if pick >> number & 1:
                self.readers[place].save()
            else:
                self.readers[place].crash()

    def read(self) -> None:
        """Nothing is accepted twice, and nothing before what came before it."""
        for place, log in self.broker.logs.items():
            for event, name in self.readers[place].read(log):
                self.accepted[event, name] += 1
                times = self.accepted[event, name]
                assert times <= 1 + self.replays[event, name], f"twice: {event} {name}"
                assert name == self.only.get(event, name), f"not for {name}: {event}"
                topic_id, partition, offset = event
                position = (topic_id, offset, name.encode())
                before = self.latest.get((place, partition))
                assert before is None or before < position, f"{position} after {before}"
                self.latest[place, partition] = position


def machine_with(fault: Fault | None) -> type[SourceSequences]:
    """The machine, with a rule switched off."""

    class WithFault(SourceSequences):
        def __init__(self) -> None:
            super().__init__(fault)

    return WithFault


def run(fault: Fault | None = None, *, examples: int, steps: int, shrinks: bool = True) -> None:
    """The same examples in every run."""
    phases = [Phase.generate, Phase.shrink] if shrinks else [Phase.generate]
    run_state_machine_as_test(
        machine_with(fault),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            deadline=None,
            phases=phases,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            report_multiple_bugs=False,
        ),
    )


def test_every_copy_is_accepted_once_and_in_order() -> None:
    run(examples=100, steps=12)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=pytest.mark.slow) if fault is Fault.SUBSCRIPTION_COUNTS else fault
        for fault in Fault
    ],
)
def test_without_a_rule_a_promise_is_broken(fault: Fault) -> None:
    broken = {Fault.TOO_LARGE: "stuck", Fault.ROUTES_EARLY: "routed before stored"}
    with pytest.raises(AssertionError, match=broken.get(fault, "lost|twice")):
        run(fault, examples=3_000, steps=12, shrinks=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_copy_is_accepted_once_and_in_order_over_very_many_steps() -> None:
    run(examples=1_000, steps=25)
