"""Bodies become plain trees, or are refused with words that say why."""

import json

import pytest

from libs.common.errors import UnreadableBody, UnsupportedMediaType
from services.control.domain import documents


def yaml(text: str) -> object:
    return documents.read(text.encode(), content_type="application/yaml; charset=utf-8")


def from_json(text: str) -> object:
    return documents.read(text.encode(), content_type="application/json")


def test_yaml_and_json_of_the_same_document_are_the_same_tree() -> None:
    tree = {"a": [1, 2.5, True, None, "x"], "b": {"c": {}}, "d": "7"}
    assert yaml("a: [1, 2.5, true, null, x]\nb:\n  c: {}\nd: '7'\n") == tree
    assert from_json(json.dumps(tree)) == tree


def test_words_and_dates_that_older_yaml_would_turn_into_values_stay_text() -> None:
    found = yaml("a: yes\nb: on\nc: 2026-01-01\nd: 12:30\ne: 0x10\nf: 010\ng: 1e3")
    assert found == {
        "a": "yes",
        "b": "on",
        "c": "2026-01-01",
        "d": "12:30",
        "e": "0x10",
        "f": 10,
        "g": 1000.0,
    }


def test_a_byte_order_mark_is_no_part_of_the_document() -> None:
    assert yaml("\ufeffa: 1") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\n---\nb: 2\n", "second document"),
        ("a: &x [1]\nb: *x\n", "aliases are not taken"),
        ("a: !!python/object:os.system {}\n", "tag"),
        ("a: !!binary aGk=\n", "tag"),
        ("a: 1\na: 2\n", "field a stands there twice"),
        ("1: 2\n", "name has to be text"),
        ("? [a]\n: 2\n", "name has to be text"),
        ("a: [1\nb: 2", "not YAML: line 2"),
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("- 1\n", "has to be a map"),
        ("a: 1e999\n", "too large"),
        ("a: " + "9" * 30, "digits"),
        ("a: " + "[" * 40 + "]" * 40, "nested"),
        ("a: [" + "1," * 60_000 + "1]", "values"),
        ("a: \x07\n", "not YAML"),
    ],
)
def test_yaml_that_is_not_one_plain_document_is_refused(text: str, words: str) -> None:
    with pytest.raises(UnreadableBody, match=words):
        yaml(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ('{"a":1}{"b":2}', "not JSON"),
        ('{"a":1,"a":2}', "twice"),
        ('{"a":NaN}', "NaN"),
        ('{"a":1e999}', "too large"),
        ('{"a":' + "9" * 5_000 + "}", "not JSON"),
        ('{"a":' + "9" * 30 + "}", "digits"),
        ('{"a":"\\ud800"}', "surrogate"),
        ('{"\\ud800":1}', "surrogate"),
        ("[" * 100_000, "not JSON"),
        ('{"a":' + "[" * 40 + "]" * 40 + "}", "nested"),
        ("[1]", "has to be a map"),
    ],
)
def test_json_that_is_not_one_plain_document_is_refused(text: str, words: str) -> None:
    with pytest.raises(UnreadableBody, match=words):
        from_json(text)


def test_a_body_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(UnreadableBody, match="UTF-8"):
        documents.read(b"a: \xff", content_type="text/yaml")


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/xml"])
def test_other_content_types_are_refused_with_the_accepted_ones(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="application/yaml"):
        documents.read(b"a: 1", content_type=content_type)
