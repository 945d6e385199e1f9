"""The next step for an event at one subscription says what to do, in words."""

from dataclasses import replace
from datetime import timedelta

import pytest

from libs.cli import event_advice
from libs.cli.event_advice import Case, advice, local_port, retries_end
from libs.common.records import Status, StatusChange
from services.delivery.domain.outcome import Policy, delay_s
from services.delivery.settings import DeliverySettings
from tests.unit.cli import events
from tests.unit.cli.events import EVENT, STORED, change, command, subscription

SINK = "./meridian sink --port 9000"
AGAIN = f"./meridian publish a.b.v1 --id {EVENT.id} --data ..."
HERE = subscription("s-1")


def case(found: StatusChange | None) -> Case:
    return Case(
        event=EVENT,
        stored_at=events.at(0),
        subscription_id="s-1",
        subscription=HERE,
        change=found,
    )


def said(found: StatusChange | None, *, seconds: float = 1.0) -> str:
    """The advice some seconds after the event was stored."""
    return advice(case(found), now=STORED + timedelta(seconds=seconds), command=command)


def test_a_callback_that_is_down_is_to_be_started_before_the_last_attempt() -> None:
    failing = change("s-1", Status.DELIVERING, error_type="connect")
    text = said(failing)
    assert "attempt 1 of 11; it is tried again until about 10:01:42 UTC" in text
    assert text.endswith(SINK)


def test_the_subscriptions_own_number_of_attempts_counts() -> None:
    few = replace_subscription(change("s-1", Status.DELIVERING, error_type="timeout"), attempts=3)
    text = advice(few, now=STORED, command=command)
    assert (
        "did not answer in time on attempt 1 of 3; it is tried again until about 10:00:00" in text
    )


def replace_subscription(found: StatusChange, *, attempts: int) -> Case:
    return replace(case(found), subscription=subscription("s-1", attempts=attempts))


def test_retries_that_go_on_for_longer_than_they_could_point_to_delivery() -> None:
    failing = change("s-1", Status.DELIVERING, error_type="connect")
    assert "was to be tried again" in said(failing, seconds=200)
    assert "./meridian status" in said(failing, seconds=1_000)


def test_a_callback_elsewhere_is_not_replaced_by_a_receiver_here() -> None:
    far = replace(
        case(change("s-1", Status.DELIVERING, error_type="http_status", http_status=503)),
        subscription=subscription("s-1", callback="https://example.com/orders"),
    )
    text = advice(far, now=STORED, command=command)
    assert text.startswith("The callback answered 503 on attempt 1")
    assert "sink" not in text


def test_retries_for_a_deleted_subscription_lead_to_nothing() -> None:
    gone = replace(case(change("s-1", Status.DELIVERING, error_type="connect")), subscription=None)
    assert "has been deleted" in advice(gone, now=STORED, command=command)


@pytest.mark.parametrize(
    ("error_type", "http_status", "wanted"),
    [
        ("attempts_exhausted", None, (SINK, AGAIN)),
        ("rejected", 400, ("answered 400, which is final", AGAIN)),
        ("rejected", 500, ("retry.on5xx: true", AGAIN)),
        ("redirect_not_followed", 301, ("name their target", AGAIN)),
        ("address_refused", None, ("ALLOWED_CALLBACK_NETWORKS", AGAIN)),
        ("invalid_callback_url", None, ("Correct the callback", AGAIN)),
        ("no_callback_url", None, ("Name a callback", AGAIN)),
        ("subscription_deleted", None, ("Apply it again",)),
        ("something_new", None, ("reason shown above", AGAIN)),
    ],
)
def test_every_failure_has_a_way_out(
    error_type: str, http_status: int | None, wanted: tuple[str, ...]
) -> None:
    text = said(change("s-1", Status.FAILED, error_type=error_type, http_status=http_status))
    for part in wanted:
        assert part in text


def test_a_refusal_by_4xx_is_not_said_to_be_repeatable() -> None:
    assert "on5xx" not in said(change("s-1", Status.FAILED, error_type="rejected", http_status=404))


def test_an_expired_event_is_to_be_published_again() -> None:
    text = said(change("s-1", Status.EXPIRED, attempt=0, error_type="expired"))
    assert "eventRetentionTime" in text
    assert AGAIN in text


@pytest.mark.parametrize("status", [Status.DELIVERED, Status.DUPLICATE])
def test_there_is_nothing_to_do_about_what_the_subscriber_has(status: Status) -> None:
    assert said(change("s-1", status)).startswith("nothing")


def test_an_event_without_a_status_is_waited_for_and_then_looked_into() -> None:
    assert f"./meridian event {EVENT.id} --wait 30" in said(None, seconds=1)
    assert "./meridian status" in said(None, seconds=100)


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://127.0.0.1:9000/orders", 9000),
        ("http://localhost/", 80),
        ("http://[::1]:9000/", 9000),
        ("https://127.0.0.1:9000/", None),
        ("http://10.1.2.3:9000/", None),
        ("http://example.com/", None),
        ("http://127.0.0.1:nonsense/", None),
        ("", None),
    ],
)
def test_only_a_plain_callback_on_this_machine_can_be_stood_in_for(
    url: str, port: int | None
) -> None:
    assert local_port(url) == port


def test_the_end_of_the_retries_is_that_of_deliverys_own_schedule() -> None:
    defaults = DeliverySettings.model_fields
    assert defaults["attempts_max"].default == event_advice.ATTEMPTS_DEFAULT
    assert defaults["timeout_s"].default == event_advice.TIMEOUT_S_DEFAULT
    policy = Policy(
        delay_s_min=defaults["retry_delay_s_min"].default,
        delay_s_max=defaults["retry_delay_s_max"].default,
    )
    for attempts in (1, 2, 11, 50):
        waited_s = sum(delay_s(attempt, policy) for attempt in range(1, attempts))
        end = retries_end(STORED, subscription("s-1", attempts=attempts))
        assert end == STORED + timedelta(seconds=waited_s)
