"""What may be committed, and when routing records are due, in any order of acknowledgements."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.multiplexer.domain.pipeline import InFlight, Pipeline


def event(offset: int, outputs: int, routing: bytes | None = b"r") -> InFlight:
    return InFlight(offset=offset, began_at_s=0.0, outputs=outputs, routing=routing, key=b"k")


def test_nothing_is_committed_before_the_routing_record_is_stored() -> None:
    pipeline, first = Pipeline(next_commit=5), event(5, 1)
    pipeline.begin(first)
    assert pipeline.routing_due() == []
    pipeline.output_acknowledged(first)
    assert pipeline.routing_due() == [first]
    assert pipeline.next_commit == 5
    pipeline.routing_acknowledged(first)
    assert pipeline.next_commit == 6
    assert len(pipeline) == 0


def test_a_routing_record_waits_for_those_of_earlier_events() -> None:
    pipeline, first, second = Pipeline(next_commit=0), event(0, 1), event(1, 0)
    pipeline.begin(first)
    pipeline.begin(second)
    assert pipeline.routing_due() == []
    pipeline.output_acknowledged(first)
    assert pipeline.routing_due() == [first, second]


def test_a_dead_letter_has_no_routing_record_and_holds_its_place() -> None:
    pipeline, poison, good = Pipeline(next_commit=0), event(0, 1, routing=None), event(1, 0)
    pipeline.begin(poison)
    pipeline.begin(good)
    assert pipeline.routing_due() == []
    pipeline.output_acknowledged(poison)
    assert pipeline.routing_due() == [good]
    assert pipeline.next_commit == 1


def test_offsets_have_to_ascend() -> None:
    pipeline = Pipeline(next_commit=0)
    pipeline.begin(event(4, 0))
    with pytest.raises(ValueError, match="does not follow"):
        pipeline.begin(event(4, 0))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_everything_is_routed_once_in_order_and_committed_at_the_end(
    fanouts: list[int], chance: random.Random
) -> None:
    pipeline = Pipeline(next_commit=0)
    events = [event(offset * 2, outputs) for offset, outputs in enumerate(fanouts)]
    waiting = [one for one in events for _ in range(one.outputs)]
    chance.shuffle(waiting)
    for one in events:
        pipeline.begin(one)
    routed = pipeline.routing_due()
    for one in waiting:
        pipeline.output_acknowledged(one)
        routed += pipeline.routing_due()
    assert [one.offset for one in routed] == [one.offset for one in events]
    chance.shuffle(routed)
    for one in routed:
        before = {other.offset for other in events if not other.is_done}
        assert pipeline.next_commit <= min(before)
        pipeline.routing_acknowledged(one)
    assert pipeline.next_commit == events[-1].offset + 1
