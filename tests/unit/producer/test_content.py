"""Which content types and modes are taken."""

import pytest

from libs.common.errors import InvalidRequest, NotAvailable, UnsupportedMediaType
from services.producer.domain.content import Mode, is_json, mode_of

BINARY = {"ce-id": ["1"], "ce-type": ["t"], "ce-source": ["s"], "ce-specversion": ["1.0"]}


@pytest.mark.parametrize(
    ("content_type", "mode"),
    [
        ("application/json", Mode.JSON),
        ("Application/JSON; charset=UTF-8", Mode.JSON),
        ('application/json;charset="utf-8"', Mode.JSON),
        ("application/cloudevents+json", Mode.STRUCTURED),
        ("application/cloudevents+json; charset=us-ascii", Mode.STRUCTURED),
    ],
)
def test_the_content_type_decides_the_mode(content_type: str, mode: Mode) -> None:
    assert mode_of({"content-type": [content_type]}) is mode


@pytest.mark.parametrize("mark", sorted(BINARY))
def test_one_cloudevents_header_makes_it_binary_mode(mark: str) -> None:
    assert mode_of({"content-type": ["application/json"], mark: ["x"]}) is Mode.BINARY


def test_binary_mode_takes_any_content_type_and_none() -> None:
    assert mode_of({**BINARY, "content-type": ["image/png"]}) is Mode.BINARY
    assert mode_of(BINARY) is Mode.BINARY


def test_a_structured_event_is_structured_whatever_headers_stand_beside_it() -> None:
    headers = {**BINARY, "content-type": ["application/cloudevents+json"]}
    assert mode_of(headers) is Mode.STRUCTURED


@pytest.mark.parametrize(
    ("content_type", "words"),
    [
        ("text/plain", "text/plain is not taken"),
        ("application/cloudevents-batch+json", "not available in this version"),
        ("application/cloudevents+avro", "is not taken"),
        ("application/json; charset=iso-8859-1", "Charset iso-8859-1"),
        ("", "Content-Type is missing"),
    ],
)
def test_other_types_are_refused_saying_why(content_type: str, words: str) -> None:
    with pytest.raises(UnsupportedMediaType, match=words):
        mode_of({"content-type": [content_type]})


def test_a_missing_type_is_refused_naming_what_is_taken() -> None:
    with pytest.raises(UnsupportedMediaType, match=r"application/json or application/cloudevents"):
        mode_of({})


def test_a_batch_is_refused_in_binary_mode_too() -> None:
    with pytest.raises(UnsupportedMediaType, match="not available"):
        mode_of({**BINARY, "content-type": ["application/cloudevents-batch+json"]})


def test_an_idempotency_key_is_refused_and_not_ignored() -> None:
    with pytest.raises(NotAvailable) as caught:
        mode_of({"content-type": ["application/json"], "idempotency-key": ["k"]})
    assert [v.pointer for v in caught.value.violations] == ["/headers/idempotency-key"]


def test_compressed_bodies_are_refused() -> None:
    with pytest.raises(UnsupportedMediaType, match="gzip"):
        mode_of({"content-type": ["application/json"], "content-encoding": ["gzip"]})


def test_an_ambiguous_content_type_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="2 times"):
        mode_of({"content-type": ["application/json", "text/plain"]})


@pytest.mark.parametrize(
    ("media_type", "expected"),
    [
        ("application/json", True),
        ("text/json", True),
        ("application/vnd.acme.x+json", True),
        ("application/jsonlines", False),
        ("text/plain", False),
        ("", False),
    ],
)
def test_json_types_are_recognised(media_type: str, expected: bool) -> None:
    assert is_json(media_type) is expected
