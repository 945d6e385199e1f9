"""Errors as problem documents."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from libs.common import errors
from libs.common.errors import InvalidEvent, Overloaded, PlatformError, TemporaryError, Violation
from libs.common.problem import KINDS, Problem, framework_problem, kind_of, problem

PATH = "/v1/integration/events"
STATUSES = {
    errors.Unauthenticated: 401,
    errors.RealmMismatch: 401,
    errors.Forbidden: 403,
    errors.NotAPublisher: 403,
    errors.UnknownEventType: 403,
    errors.NotTheSubscriber: 403,
    errors.NotFound: 404,
    errors.UnknownSubscription: 404,
    errors.UnreadableBody: 400,
    errors.InvalidRequest: 400,
    errors.InvalidEvent: 400,
    errors.InvalidResource: 400,
    errors.NotAvailable: 400,
    errors.UnsupportedMediaType: 415,
    errors.TooLarge: 413,
    errors.SlowBody: 408,
    errors.Conflict: 409,
    errors.NotAStream: 409,
    errors.NotAcceptable: 406,
    errors.PreconditionFailed: 412,
    errors.Overloaded: 503,
    errors.NotReady: 503,
    errors.KafkaUnavailable: 503,
    errors.NoEvent: 504,
    errors.AckTimeout: 504,
    errors.NotAppliedYet: 504,
    errors.IssuerUnavailable: 503,
    errors.ClientError: 400,
    errors.TemporaryError: 503,
    errors.PermanentError: 500,
    errors.SettingsError: 500,
    errors.FencedOut: 500,
    errors.PlatformError: 500,
}


def kinds_of_errors(root: type[PlatformError]) -> Iterator[type[PlatformError]]:
    """The class and all below it that the errors' own module defines."""
    if root.__module__ == errors.__name__:
        yield root
    for below in root.__subclasses__():
        yield from kinds_of_errors(below)


def bare(kind: type[PlatformError]) -> PlatformError:
    """An error of the class whose constructor has not run; its detail is empty."""
    return kind.__new__(kind)


def members(found: Problem) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(found.body)
    return document


@pytest.mark.parametrize("kind", sorted(set(kinds_of_errors(PlatformError)), key=str))
def test_every_error_has_the_status_that_the_contract_names(kind: type[PlatformError]) -> None:
    assert kind_of(bare(kind)).status == STATUSES[kind]


def test_no_two_kinds_share_a_slug_or_a_title() -> None:
    assert len({kind.slug for kind in KINDS.values()}) == len(KINDS)
    assert len({kind.title for kind in KINDS.values()}) == len(KINDS)


def test_a_class_without_a_kind_of_its_own_has_its_parents() -> None:
    class NoPublisherToday(errors.Forbidden):
        """More special than anything that is listed."""

    assert kind_of(NoPublisherToday("no")) == KINDS[errors.Forbidden]


def test_a_problem_has_the_members_of_rfc_9457() -> None:
    found = problem(errors.NotFound("there is no rover x"), instance=PATH)
    assert found.status == 404
    assert members(found) == {
        "type": "urn:meridian:problem:not-found",
        "title": "Not found",
        "status": 404,
        "detail": "there is no rover x",
        "instance": PATH,
    }
    assert found.headers == {}


def test_all_violations_are_listed_with_their_pointers() -> None:
    error = InvalidEvent(
        "2 faults", [Violation("/id", "is missing"), Violation("/data/ä", 'is "odd"')]
    )
    assert members(problem(error, instance=PATH))["errors"] == [
        {"pointer": "/id", "detail": "is missing"},
        {"pointer": "/data/ä", "detail": 'is "odd"'},
    ]


@pytest.mark.parametrize("kind", [errors.Unauthenticated, errors.RealmMismatch])
def test_a_401_names_the_scheme_that_is_asked_for(kind: type[PlatformError]) -> None:
    headers = problem(kind("no"), instance=PATH).headers
    assert headers == {"WWW-Authenticate": 'Bearer error="invalid_token"'}


@pytest.mark.parametrize(
    ("delay_s", "header"), [(None, "1"), (0.0, "1"), (0.2, "1"), (2.0, "2"), (2.1, "3")]
)
def test_a_503_says_when_to_come_back_in_whole_seconds(delay_s: float | None, header: str) -> None:
    found = problem(Overloaded("full", delay_s=delay_s), instance=PATH)
    assert found.headers == {"Retry-After": header}


@pytest.mark.parametrize("kind", [errors.AckTimeout, errors.NotAppliedYet])
def test_a_504_promises_no_time(kind: type[TemporaryError]) -> None:
    assert problem(kind("late", delay_s=5.0), instance=PATH).headers == {}


@pytest.mark.parametrize(
    ("status", "slug"),
    [
        (404, "not-found"),
        (405, "method-not-allowed"),
        (406, "not-acceptable"),
        (417, "bad-request"),
    ],
)
def test_statuses_of_the_framework_become_problems(status: int, slug: str) -> None:
    found = framework_problem(status, "what was wrong", instance=PATH)
    assert found.status == status
    assert members(found)["status"] == status
    assert members(found)["type"] == f"urn:meridian:problem:{slug}"
    assert members(found)["detail"] == "what was wrong"
