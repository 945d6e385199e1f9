"""Reading events: attributes parsed, data untouched."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.common.errors import UnreadableBody, UnsupportedMediaType
from services.producer.domain.parts import DEPTH_MAX, Parts, from_binary, from_json

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def data_of(parts: Parts) -> bytes:
    assert parts.data is not None
    return bytes(memoryview(parts.data))


def without_surrogates(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@pytest.mark.parametrize(
    "data",
    [
        b'{ "a" :  1.0,\n\t"b": [ 1e5, 1E400, -0 ] }',
        b'"\\u00e9\\/"',
        b"12345678901234567890123456789.000",
        '{"ä":"€"}'.encode(),
        b'{"a":1,"a":2}',
        b"null",
        b"[]",
    ],
)
def test_data_stays_the_bytes_that_were_sent(data: bytes) -> None:
    parts = from_json(b' {"id" : "1", "data" : ' + data + b' , "type":"t"}\n')
    assert data_of(parts) == data
    assert parts.attributes == {"id": "1", "type": "t"}
    assert parts.data_bytes == len(data)


@given(JSON_VALUES.filter(without_surrogates), st.booleans())
def test_any_json_comes_through_unchanged(value: Any, is_compact: bool) -> None:
    separators = (",", ":") if is_compact else (", ", ": ")
    data = json.dumps(value, separators=separators).encode()
    body = json.dumps({"id": "1", "data": None, "b": "2"}, separators=separators).encode()
    parts = from_json(body.replace(b"null", data))
    assert data_of(parts) == data
    assert parts.faults == []


def test_absent_and_null_attributes_are_the_same() -> None:
    assert from_json(b'{"id":"1","subject":null}').attributes == {"id": "1"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":1}',
        b'{"a":1, "b":2, "a":3}',
        b'{"a":1,"\\u0061":2}',
        b'{"data":1,"a":2,"data":3}',
        b'{"a":null,"a":1}',
    ],
)
def test_a_repeated_member_is_reported_once(body: bytes) -> None:
    (fault,) = from_json(body).faults
    assert fault.detail == "stands more than once"
    assert fault.pointer in {"/a", "/data"}


def test_repeated_members_inside_data_are_not_our_business() -> None:
    assert from_json(b'{"data": {"a":1,"a":2}}').faults == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"id":"1"} x', "not JSON"),
        (b'{"id":nope}', "not JSON"),
        (b'{"data":{"a":tru}}', "not JSON"),
        (b'{"data":"a\nb"}', "not JSON"),
        (b'{"data":"\\x"}', "not JSON"),
        (b'{"data":NaN}', "not JSON"),
        (b'{"data":01}', "not JSON"),
        (b"{'a':1}", "not JSON"),
        (b'\xef\xbb\xbf{"a":1}', "not JSON"),
        (b'{"data":"\\ud800"}', "not JSON"),
        (b'{"data":"\xff"}', "not UTF-8"),
        (b'{"id":"\xc3("}', "not UTF-8"),
        (b"[]", "not an object"),
        (b'"text"', "not an object"),
        (b"null", "not an object"),
        (b'{"n":1e999}', "attribute"),
    ],
)
def test_what_is_no_json_object_is_unreadable(body: bytes, words: str) -> None:
    with pytest.raises(UnreadableBody, match=words):
        from_json(body)


@pytest.mark.parametrize("depth", [DEPTH_MAX, 900, 100_000])
def test_nesting_over_the_bound_is_unreadable(depth: int) -> None:
    with pytest.raises(UnreadableBody, match="nested"):
        from_json(b'{"data":' + b"[" * depth + b"]" * depth + b"}")


def test_nesting_up_to_the_bound_and_many_brackets_side_by_side_are_fine() -> None:
    depth = DEPTH_MAX - 1
    from_json(b'{"data":' + b"[" * depth + b"]" * depth + b"}")
    from_json(b'{"data":[' + b'{"a":[]},' * 1_000 + b"1]}")
    from_json(b'{"data":"' + b"[" * 10_000 + b'\\""}')


BINARY = {"ce-id": ["1"], "ce-type": ["t"], "content-type": ["application/json"]}


def test_binary_mode_takes_attributes_from_headers_and_json_as_data() -> None:
    parts = from_binary({**BINARY, "host": ["h"]}, b'{"a": 1}')
    assert parts.attributes == {"id": "1", "type": "t", "datacontenttype": "application/json"}
    assert data_of(parts) == b'{"a": 1}'


def test_binary_mode_takes_any_json_as_data() -> None:
    assert data_of(from_binary(BINARY, b"[1, 2]")) == b"[1, 2]"
    assert data_of(from_binary(BINARY, b'"text"')) == b'"text"'


def test_a_body_that_is_not_json_becomes_base64() -> None:
    body = bytes(range(256))
    parts = from_binary({**BINARY, "content-type": ["application/octet-stream"]}, body)
    assert base64.b64decode(parts.attributes["data_base64"]) == body
    assert parts.data is None
    assert parts.data_bytes == 344


def test_binary_mode_without_a_body_has_no_data() -> None:
    parts = from_binary({"ce-id": ["1"]}, b"")
    assert parts.attributes == {"id": "1"}
    assert parts.data is None


def test_a_body_that_is_not_the_json_it_claims_to_be_is_unreadable() -> None:
    with pytest.raises(UnreadableBody, match="not JSON"):
        from_binary({**BINARY, "content-type": ["application/x+json"]}, b"{nope")


def test_a_body_without_a_type_is_refused() -> None:
    with pytest.raises(UnsupportedMediaType, match="Content-Type is missing"):
        from_binary({"ce-id": ["1"]}, b"x")


def test_attribute_headers_are_percent_decoded() -> None:
    assert from_binary({"ce-subject": ["%E2%82%AC%20a"]}, b"").attributes == {"subject": "€ a"}


def test_what_is_no_percent_encoded_utf8_is_kept() -> None:
    assert from_binary({"ce-subject": ["%FF"]}, b"").attributes == {"subject": "%FF"}


@pytest.mark.parametrize("name", ["data", "data_base64", "datacontenttype"])
def test_data_cannot_be_smuggled_in_as_a_header(name: str) -> None:
    parts = from_binary({**BINARY, f"ce-{name}": ["x"]}, b"1")
    assert [fault.pointer for fault in parts.faults] == [f"/{name}"]


def test_an_attribute_header_sent_twice_is_reported() -> None:
    parts = from_binary({**BINARY, "ce-id": ["1", "2"]}, b"1")
    assert [fault.pointer for fault in parts.faults] == ["/id"]


def test_raw_data_can_be_written_again() -> None:
    parts = from_json(b'{"id":"1","data":{"x": 1}}')
    assert msgspec.json.encode({"data": parts.data}) == b'{"data":{"x": 1}}'
