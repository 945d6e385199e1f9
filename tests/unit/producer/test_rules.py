"""The rules of an event's fields."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.producer.domain.content import Mode
from services.producer.domain.parts import from_json
from services.producer.domain.rules import ATTRIBUTES_MAX, violations

GOOD: dict[str, Any] = {
    "id": "018f3c1e-7a52-7bd0-9c1f-2f6d1c1a9b10",
    "type": "orders.created.v1",
    "source": "https://shop.example/orders",
    "specversion": "1.0",
    "time": "2026-11-20T10:00:00Z",
    "datacontenttype": "application/json",
    "data": {"order": 1},
}
CLOUDEVENTS_MODES = [Mode.STRUCTURED, Mode.BINARY]


def found(event: dict[str, Any], mode: Mode = Mode.JSON) -> list[str]:
    return sorted(v.pointer for v in violations(from_json(json.dumps(event).encode()), mode))


def changed(**fields: Any) -> dict[str, Any]:
    return {**GOOD, **fields}


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name not in names}


@pytest.mark.parametrize("mode", list(Mode))
def test_a_good_event_breaks_no_rule(mode: Mode) -> None:
    assert found(GOOD, mode) == []


def test_a_fully_broken_event_has_exactly_seven_violations() -> None:
    broken = {
        "id": "1",
        "type": "my.invalid.event.type.v1@",
        "source": " ",
        "specversion": "",
        "datacontenttype": 5,
        "time": "2024-01-01T00:00Z",
    }
    assert found(broken) == [
        "/data",
        "/datacontenttype",
        "/id",
        "/source",
        "/specversion",
        "/time",
        "/type",
    ]


def test_an_empty_object_lacks_every_required_field() -> None:
    assert found({}) == ["/data", "/id", "/source", "/specversion", "/type"]
    assert found({}, Mode.STRUCTURED) == ["/id", "/source", "/specversion", "/type"]


@pytest.mark.parametrize("version", "12345678")
@pytest.mark.parametrize("variant", "89abAB")
def test_ids_are_uuids_of_every_version(version: str, variant: str) -> None:
    assert found(changed(id=f"018F3c1e-7a52-{version}bd0-{variant}c1f-2f6d1c1a9b10")) == []


@pytest.mark.parametrize(
    "event_id",
    [
        "018f3c1e-7a52-0bd0-9c1f-2f6d1c1a9b10",
        "018f3c1e-7a52-9bd0-9c1f-2f6d1c1a9b10",
        "018f3c1e-7a52-7bd0-cc1f-2f6d1c1a9b10",
        "018f3c1e7a527bd09c1f2f6d1c1a9b10",
        "{018f3c1e-7a52-7bd0-9c1f-2f6d1c1a9b10}",
        "018f3c1e-7a52-7bd0-9c1f-2f6d1c1a9b10\n",
        "order-1",
        "",
        " ",
        7,
        None,
        True,
    ],
)
def test_other_ids_are_violations_in_application_json(event_id: Any) -> None:
    assert found(changed(id=event_id)) == ["/id"]


@pytest.mark.parametrize("mode", CLOUDEVENTS_MODES)
def test_the_cloudevents_types_take_any_id_that_is_not_blank(mode: Mode) -> None:
    assert found(changed(id="order 1/ä"), mode) == []
    assert found(changed(id=" "), mode) == ["/id"]


@pytest.mark.parametrize("event_type", ["a", "A.b-1", "orders.created.v1", "..", "018f3c1e-7a52"])
def test_types_of_letters_digits_dots_and_dashes_are_fine(event_type: str) -> None:
    assert found(changed(type=event_type)) == []


@pytest.mark.parametrize("event_type", ["a@", "a_b", "a b", "a/b", "é", "a\n", "٣", "", 1, ["a"]])
@pytest.mark.parametrize("mode", list(Mode))
def test_other_types_are_violations(event_type: Any, mode: Mode) -> None:
    assert found(changed(type=event_type), mode) == ["/type"]


@pytest.mark.parametrize("name", ["source", "specversion"])
@pytest.mark.parametrize("value", ["", "  ", None, 1, {}, "a\u0000b"])
@pytest.mark.parametrize("mode", list(Mode))
def test_source_and_specversion_are_text_that_is_not_blank(
    name: str, value: Any, mode: Mode
) -> None:
    assert found(changed(**{name: value}), mode) == [f"/{name}"]


def test_the_value_of_specversion_is_not_checked() -> None:
    assert found(changed(specversion="0.3")) == []


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-20T10:00:00Z",
        "2026-11-20T10:00:00.1Z",
        "2026-11-20T10:00:00.123456789+02:00",
        "2024-02-29T23:59:59-11:30",
        None,
    ],
)
def test_times_with_seconds_and_offset_are_fine(time: str | None) -> None:
    assert found(changed(time=time)) == []


@pytest.mark.parametrize(
    "time",
    [
        "2024-01-01T00:00Z",
        "2024-01-01T00:00:00",
        "2024-01-01 00:00:00Z",
        "2024-01-01",
        "2024-02-30T00:00:00Z",
        "2024-01-01T25:00:00Z",
        "2024-01-01T00:00:00,5Z",
        "2024-W01-1T00:00:00Z",
        "٢٠٢٤-01-01T00:00:00Z",
        "now",
        "",
        1704067200,
    ],
)
@pytest.mark.parametrize("mode", list(Mode))
def test_other_times_are_violations(time: Any, mode: Mode) -> None:
    assert found(changed(time=time), mode) == ["/time"]


def test_an_absent_time_is_fine() -> None:
    assert found(without("time")) == []


def test_application_json_needs_data_or_dataref() -> None:
    assert found(without("data")) == ["/data"]
    assert found(changed(data=None)) == ["/data"]
    assert found({**without("data"), "dataref": "https://store.example/1"}) == []
    assert found({**without("data"), "data_base64": "aGFsbG8="}) == []


@pytest.mark.parametrize("mode", CLOUDEVENTS_MODES)
def test_the_cloudevents_types_need_no_data(mode: Mode) -> None:
    assert found(without("data"), mode) == []


@pytest.mark.parametrize("data", [0, False, "", [], {}])
def test_falsy_data_is_data(data: Any) -> None:
    assert found(changed(data=data)) == []


@pytest.mark.parametrize("mode", list(Mode))
def test_data_must_not_stand_beside_its_base64_form(mode: Mode) -> None:
    assert found(changed(data_base64="aGFsbG8="), mode) == ["/data_base64"]
    assert found(changed(data_base64="aGFsbG8=", data=None), mode) == []


@pytest.mark.parametrize("text", ["a", "aGFsbG8", "aGFsbG8==", "a-_=", "aGFs bG8=", 5])
def test_base64_is_checked(text: Any) -> None:
    assert found({**without("data"), "data_base64": text}) == ["/data_base64"]


@pytest.mark.parametrize("name", ["dataref", "dataschema", "subject", "datacontenttype"])
@pytest.mark.parametrize("mode", list(Mode))
def test_optional_attributes_are_text(name: str, mode: Mode) -> None:
    assert found(changed(**{name: 1}), mode) == [f"/{name}"]
    assert found(changed(**{name: None}), mode) == []


@pytest.mark.parametrize("value", ["", " ", 7, True])
def test_a_partition_key_is_text_that_is_not_blank(value: Any) -> None:
    assert found(changed(partitionkey=value)) == ["/partitionkey"]


@pytest.mark.parametrize("value", ["text", "", 7, -2_147_483_648, 2_147_483_647, True, None])
def test_extensions_hold_text_whole_numbers_and_booleans(value: Any) -> None:
    assert found(changed(myextension1=value)) == []


@pytest.mark.parametrize("value", [1.5, 2_147_483_648, -2_147_483_649, [], {}, "a\nb", "\u0085"])
def test_other_values_of_extensions_are_violations(value: Any) -> None:
    assert found(changed(myextension1=value)) == ["/myextension1"]


@pytest.mark.parametrize(
    ("name", "pointer"),
    [("traceParent", "/traceParent"), ("a-b", "/a-b"), ("", "/"), ("a/b~c", "/a~1b~0c")],
)
def test_names_of_extensions_have_lower_case_letters_and_digits(name: str, pointer: str) -> None:
    assert found(changed(**{name: "x"})) == [pointer]


def test_too_many_attributes_are_one_violation() -> None:
    many = {f"BAD{number}": 1.5 for number in range(ATTRIBUTES_MAX)}
    assert found(changed(**many)) == [""]


def test_what_was_found_while_reading_is_reported_too() -> None:
    body = json.dumps(without("source")).replace("{", '{"id":"1",', 1).encode()
    assert {v.pointer for v in violations(from_json(body), Mode.JSON)} == {"/id", "/source"}


FIELDS = st.text(max_size=5) | st.integers() | st.none() | st.booleans() | st.lists(st.none())


@given(
    st.dictionaries(st.sampled_from([*GOOD, "x", "subject", "Y"]), FIELDS),
    st.sampled_from(list(Mode)),
)
def test_every_field_has_at_most_one_violation(event: dict[str, Any], mode: Mode) -> None:
    pointers = found(event, mode)
    assert len(pointers) == len(set(pointers))
