"""What became of an event is told once, with what counts, and within bounds."""

from dataclasses import replace
from datetime import timedelta

import msgspec

from libs.cli import event_story
from libs.cli.event_story import Findings, is_found, is_settled
from libs.common.records import DeliveryType, PublishedEvent, Status
from tests.unit.cli import events
from tests.unit.cli.events import EVENT, STORED, change, findings, routing, subscription

NOW = STORED + timedelta(seconds=2)


def tell(found: Findings) -> str:
    return "\n".join(event_story.tell(found, now=NOW, command=events.command))


def test_a_delivered_event_is_told_from_storing_to_the_last_answer() -> None:
    told = tell(
        findings(
            routing("s-1"),
            change("s-1", Status.DELIVERING, seconds=0.1, error_type="connect"),
            change("s-1", Status.DELIVERED, seconds=1.5, attempt=5, http_status=200),
            existing=(subscription("s-1"),),
        )
    )
    assert told.splitlines() == [
        f"Event {EVENT.id}, a.b.v1",
        "Stored 2026-11-20T10:00:00.123Z by eni--a--shop in integration; matched 1 subscription.",
        "",
        "eni--a--billing at http://127.0.0.1:9000/orders (subscription s-1)",
        "  2026-11-20T10:00:00.223Z  DELIVERING  attempt 1, 2 ms, connect, because of connect",
        "  2026-11-20T10:00:01.623Z  DELIVERED   attempt 5, HTTP 200, 2 ms",
        "  Next: nothing, the subscriber has it.",
        "",
        "Looked through 7 records; Kafka keeps them for 8 days.",
    ]


def test_an_event_that_nobody_subscribes_to_asks_for_a_subscription() -> None:
    found = findings(routing())
    assert is_settled(found)
    told = tell(found)
    assert "nobody was subscribed to a.b.v1" in told
    assert "./meridian apply -f ..." in told
    assert "./meridian publish a.b.v1" in told


def test_an_unknown_id_is_said_to_be_unknown() -> None:
    found = findings(None, routed_count=0)
    assert not is_found(found)
    assert not is_settled(found)
    assert f"No event with the id {EVENT.id} was stored in the last 8 days" in tell(found)


def test_an_event_that_is_stored_and_not_matched_yet_points_to_the_multiplexer() -> None:
    published = PublishedEvent(
        uuid="p-1",
        environment="integration",
        publisher_id="eni--a--shop",
        published_at=events.at(0),
        ordering_key="k",
        resources_offset=0,
        event=msgspec.Raw(b"{}"),
    )
    found = replace(findings(None, routed_count=0), published=published)
    assert is_found(found)
    assert not is_settled(found)
    assert "not matched with subscriptions yet" in tell(found)
    assert "./meridian status" in tell(found)


def test_an_event_is_settled_when_every_subscription_has_a_final_status() -> None:
    delivered = change("s-1", Status.DELIVERED)
    under_way = change("s-2", Status.DELIVERING, error_type="connect")
    assert not is_settled(findings(routing("s-1", "s-2"), delivered))
    assert not is_settled(findings(routing("s-1", "s-2"), delivered, under_way))
    failed = change("s-2", Status.FAILED, error_type="attempts_exhausted")
    assert is_settled(findings(routing("s-1", "s-2"), delivered, under_way, failed))


def test_a_late_failure_does_not_count_against_a_delivery() -> None:
    delivered = change("s-1", Status.DELIVERED)
    late = change("s-1", Status.FAILED, seconds=9, error_type="attempts_exhausted")
    assert event_story.counting([delivered, late]) is delivered
    assert event_story.counting([late, change("s-1", Status.EXPIRED, seconds=10)]) is late


def test_statuses_of_another_event_with_the_same_id_are_left_out() -> None:
    earlier = change("s-1", Status.FAILED, error_type="rejected", published_uuid="p-0")
    found = findings(routing("s-1"), earlier, routed_count=2)
    told = tell(found)
    assert "2 events have this id; this is the newest." in told
    assert "FAILED" not in told
    assert not is_settled(found)


def test_statuses_of_a_redelivery_do_not_change_the_outcome() -> None:
    again = msgspec.structs.replace(change("s-1", Status.FAILED), redelivery_id="r-1")
    delivered = change("s-1", Status.DELIVERED)
    found = findings(routing("s-1"), delivered, again)
    assert "FAILED" not in tell(found)


def test_a_subscription_that_is_gone_is_said_to_be_deleted() -> None:
    failed = change("s-1", Status.FAILED, attempt=0, error_type="subscription_deleted")
    told = tell(findings(routing("s-1"), failed))
    assert "eni--a--billing deleted since (subscription s-1)" in told
    assert "no attempt" in told


def test_what_needs_attention_comes_first_and_the_rest_is_counted() -> None:
    names = [f"s-{number}" for number in range(event_story.CASES_MAX + 5)]
    changes = [change(name, Status.DELIVERED) for name in names[:-1]]
    failed = change(names[-1], Status.FAILED, error_type="rejected", http_status=400)
    told = tell(findings(routing(*names), *changes, failed))
    assert told.index(f"(subscription {names[-1]})") < told.index("(subscription s-0)")
    assert told.count("(subscription ") == event_story.CASES_MAX
    assert "And 5 subscriptions more: 5 DELIVERED." in told


def test_many_statuses_of_one_subscription_are_cut_to_the_last_ones() -> None:
    repeated = [
        change("s-1", Status.DELIVERING, seconds=number, error_type="connect")
        for number in range(event_story.CHANGES_MAX + 3)
    ]
    told = tell(findings(routing("s-1"), *repeated))
    assert "  3 earlier statuses" in told
    assert told.count("DELIVERING") == event_story.CHANGES_MAX


def test_a_message_cannot_play_with_the_terminal() -> None:
    nasty = msgspec.structs.replace(
        change("s-1", Status.FAILED, error_type="rejected", http_status=400),
        error_message="\x1b[2J\n" + "x" * 1_000,
    )
    told = tell(findings(routing("s-1"), nasty))
    assert "\x1b" not in told
    assert max(len(line) for line in told.splitlines()) < 400


def test_an_event_on_a_stream_waits_for_its_reader_or_was_sent() -> None:
    called = subscription("s-1")
    spec = msgspec.structs.replace(called.spec, delivery_type="server_sent_event", callback=None)
    stream = msgspec.structs.replace(called, spec=spec)
    waiting = tell(findings(routing("s-1"), existing=(stream,)))
    assert "eni--a--billing by stream (subscription s-1)" in waiting
    assert "./meridian listen a.b.v1 --as eni--a--billing" in waiting
    sent = msgspec.structs.replace(
        change("s-1", Status.DELIVERED), delivery_type=DeliveryType.SERVER_SENT_EVENT
    )
    assert "sent on the stream" in tell(findings(routing("s-1"), sent, existing=(stream,)))
