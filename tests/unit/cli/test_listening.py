"""What a listener decides: repeats, pauses, and when to give way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.cli.listening import DELAY_S_MAX, Next, Seen, Tally, after_end, delay_s


@pytest.mark.parametrize(
    ("reason", "follows"),
    [
        ("cut_out", Next.GIVE_WAY),
        ("enough", Next.AGAIN),
        ("subscription_changed", Next.LOOK),
        ("stopping", Next.LATER),
        ("something_new", Next.LATER),
        (None, Next.LATER),
    ],
)
def test_only_who_was_cut_out_gives_way(reason: str | None, follows: Next) -> None:
    assert after_end(reason) is follows


def test_pauses_double_up_to_a_bound() -> None:
    assert [delay_s(failures) for failures in (1, 2, 3, 10, 1_000)] == [0.5, 1.0, 2.0, 30.0, 30.0]


def test_a_server_may_ask_for_a_longer_pause_within_the_bound() -> None:
    assert delay_s(1, wished_s=4) == 4
    assert delay_s(4, wished_s=1) == 4
    assert delay_s(1, wished_s=3_600) == DELAY_S_MAX


def test_repeats_are_told_among_the_last_ids_only() -> None:
    seen = Seen(most=2)
    assert [seen.is_new(event_id) for event_id in "aab"] == [True, False, True]
    assert seen.is_new("c")
    assert seen.is_new("a")
    assert not seen.is_new("c")


def test_events_without_an_id_are_never_repeats() -> None:
    seen = Seen()
    assert all(seen.is_new("") for _ in range(2))


@given(st.lists(st.text(min_size=1, max_size=2)))
def test_no_id_is_shown_twice_while_it_is_remembered(ids: list[str]) -> None:
    seen = Seen()
    shown = [event_id for event_id in ids if seen.is_new(event_id)]
    assert len(shown) == len(set(ids))


def test_a_tally_knows_what_is_left_and_tells_what_was() -> None:
    tally = Tally(wanted=3, shown=2, repeats=1, connections=2)
    assert (tally.left, tally.is_enough) == (1, False)
    assert str(tally) == "2 events, 1 repeat left out, connected again 1 time."
    tally.shown += 1
    assert tally.is_enough
    assert not Tally().is_enough
    assert Tally().left is None
