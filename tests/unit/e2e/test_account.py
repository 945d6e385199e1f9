"""The account of a run with blows: losses, repeats and silences, each put where it belongs."""

from collections.abc import Sequence

from tests.e2e import account
from tests.e2e.account import Blow, Run
from tests.e2e.traffic import Arrival


def run(
    *arrivals: tuple[str, str, float],
    blows: Sequence[Blow] = (),
    sent: Sequence[str] = ("a", "b"),
) -> Run:
    """A run with one receiver; arrivals are (event, uuid, time)."""
    return Run(
        sent=set(sent),
        repeated_by_publisher=set(),
        partitions={"a": 0, "b": 1},
        arrivals={"one": [Arrival(*each) for each in arrivals]},
        blows=blows,
    )


def test_an_event_that_a_receiver_never_had_is_lost() -> None:
    assert account.lost(run(("a", "u1", 1.0))) == {"one": {"b"}}
    assert account.lost(run(("a", "u1", 1.0), ("b", "u2", 1.0))) == {}


def test_an_event_with_two_uuids_was_stored_twice_and_is_no_repeat() -> None:
    found = run(("a", "u1", 1.0), ("a", "u3", 2.0), ("b", "u2", 2.0))
    assert account.stored_twice(found) == {"a"}
    assert account.repeats(found) == []


def test_a_repeat_belongs_to_the_last_blow_before_it() -> None:
    found = run(
        ("a", "u1", 1.0),
        ("b", "u2", 1.0),
        ("a", "u1", 2.5),
        ("a", "u1", 4.5),
        ("b", "u2", 4.6),
        blows=[Blow("first", 2.0, 3), Blow("second", 4.0, 0)],
    )
    first, second = account.effects(found)
    assert (first.repeats, second.repeats) == (1, 2)


def test_a_blow_may_repeat_what_was_in_flight_and_the_second_before_it() -> None:
    arrivals = [("a", f"u{at}", float(at)) for at in (1, 2, 3)]
    (effect,) = account.effects(run(*arrivals, blows=[Blow("kill", 3.0, 5)]))
    assert effect.repeats_max == 5 + 1


def test_the_silence_of_a_partition_is_its_longest_gap_after_the_blow() -> None:
    found = run(
        ("a", "u1", 1.0),
        ("a", "u1", 5.0),
        ("b", "u2", 3.0),
        ("b", "u2", 9.0),
        blows=[Blow("kill", 2.0, 0)],
    )
    (effect,) = account.effects(found)
    assert effect.silence_s == {0: 3.0, 1: 6.0}
    assert effect.silence_s_max == 6.0
