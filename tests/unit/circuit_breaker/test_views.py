"""Circuits in golaris' shapes."""

import msgspec
import pytest

from libs.common.records import Circuit, CircuitStatus, encode
from services.circuit_breaker.adapters.tables import decode_circuit
from services.circuit_breaker.domain import views
from services.circuit_breaker.domain.views import Case
from tests.unit.circuit_breaker.circuits import NOW, URL, circuit, probe, subscription

LATER = "2026-11-20T10:00:30.000Z"


def case(found: Circuit, subscriber: str | None = "eni--bi--reader") -> Case:
    known = subscription(found.subscription_id, subscriber) if subscriber else None
    return Case(found, known)


def test_a_circuit_is_shown_with_its_last_probe_its_subscriber_and_its_publisher() -> None:
    view = views.circuit(case(circuit("s1", last_probe=probe(), loop_counter=2, reason="timeout")))
    assert view["subscriptionId"] == "s1"
    assert (view["status"], view["lastOpened"], view["loopCounter"]) == ("OPEN", NOW, 2)
    assert (view["subscriberId"], view["publisherId"]) == ("eni--bi--reader", "eni--orders--shop")
    assert view["healthCheck"] == {
        "environment": "integration",
        "method": "HEAD",
        "callbackUrl": URL,
        "lastChecked": NOW,
        "lastCheckedStatus": 503,
        "error": None,
    }


def test_a_circuit_without_probe_and_subscription_is_shown_without_them() -> None:
    view = views.circuit(case(circuit("s1"), None))
    assert not {"healthCheck", "subscriberId", "publisherId"} & set(view)


def test_the_list_has_what_is_not_closed_by_subscription() -> None:
    found = [
        case(circuit("c", status=CircuitStatus.CHECKING)),
        case(circuit("b", status=CircuitStatus.CLOSED)),
        case(circuit("a")),
    ]
    listed = views.circuits(found)
    assert [item["subscriptionId"] for item in listed["items"]] == ["a", "c"]
    assert listed["total"] == 2


def test_a_long_list_is_cut_and_says_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "ITEMS_MAX", 3)
    listed = views.circuits([case(circuit(f"s{number}")) for number in range(5)])
    assert [item["subscriptionId"] for item in listed["items"]] == ["s0", "s1", "s2"]
    assert listed["total"] == 5


def test_the_newest_probe_of_a_callback_stands_for_all_subscriptions_behind_it() -> None:
    listed = views.health_checks(
        [
            case(circuit("b", last_probe=probe(LATER, status=200))),
            case(circuit("a", last_probe=probe(NOW))),
            case(circuit("c", last_probe=probe(NOW, method="GET"))),
            case(circuit("d")),
        ]
    )
    assert [(item["method"], item["subscriptionIds"]) for item in listed["items"]] == [
        ("GET", ["c"]),
        ("HEAD", ["a", "b"]),
    ]
    assert (listed["items"][1]["lastChecked"], listed["items"][1]["lastCheckedStatus"]) == (
        LATER,
        200,
    )


def test_republishing_entries_are_the_circuits_in_that_state() -> None:
    running = circuit("a", status=CircuitStatus.REPUBLISHING, postponed_until=LATER)
    listed = views.republishing([case(running), case(circuit("b"))])
    assert listed == {"items": [{"subscriptionId": "a", "postponedUntil": LATER}], "total": 1}


def test_a_circuit_is_read_as_it_was_written_and_only_under_its_key() -> None:
    written = circuit("s1", last_probe=probe(), waiting_for=["subscribed-7d/3"])
    assert decode_circuit("s1", encode(written)) == written
    with pytest.raises(msgspec.ValidationError, match="key other"):
        decode_circuit("other", encode(written))
