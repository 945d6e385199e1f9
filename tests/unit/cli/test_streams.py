"""Which stream is meant; mistakes say what is wrong and what to do next."""

import pytest

from libs.cli.errors import CommandFailed
from libs.cli.streams import Asked, choose
from libs.common.resources import Kind, Resource
from tests.unit.cli.events import command

TYPE = "a.b.v1"


def subscription(client: str, *, callback: str | None = None, event_type: str = TYPE) -> Resource:
    delivery = {"callback": callback} if callback else {}
    return Resource(
        kind=Kind.SUBSCRIPTION,
        environment="integration",
        id=f"id-of-{client}",
        version=5,
        created_at="",
        updated_at="",
        owner=client,
        spec={
            "type": event_type,
            "deliveryType": "callback" if callback else "server_sent_event",
            **delivery,
        },
    )


STREAM = subscription("eni--a--dashboard")
OTHER = subscription("eni--a--audit")
MISSPELT = subscription("eni--a--audit", event_type="a.bb.v1")
CALLED = subscription("eni--a--billing", callback="http://127.0.0.1:9000/")


def asked(client_id: str | None = None) -> Asked:
    return Asked(event_type=TYPE, environment="integration", client_id=client_id, command=command)


def test_the_only_stream_of_a_type_needs_no_client() -> None:
    found = choose(asked(), [CALLED, STREAM], is_exposed=True)
    assert found.client_id == "eni--a--dashboard"
    assert found.path == "/v1/integration/sse/id-of-eni--a--dashboard"


def test_a_client_chooses_among_several() -> None:
    found = choose(asked("eni--a--audit"), [STREAM, OTHER], is_exposed=True)
    assert found.subscription_id == "id-of-eni--a--audit"


@pytest.mark.parametrize(
    ("client_id", "found", "is_exposed", "words"),
    [
        (None, [], False, "Nobody exposes or subscribes to a.b.v1.*spelling.*examples/"),
        (None, [MISSPELT], False, "Nobody exposes.*did you mean a.bb.v1.*deliveryType"),
        (None, [MISSPELT], True, "Nobody subscribes to a.b.v1"),
        (None, [], True, "Nobody subscribes to a.b.v1.*deliveryType: server_sent_event"),
        ("eni--a--x", [], True, "Nobody subscribes to a.b.v1"),
        (None, [CALLED], True, "callbacks only: eni--a--billing at http.*Another application"),
        ("eni--a--billing", [CALLED, STREAM], True, "callbacks only: eni--a--billing"),
        (None, [STREAM, OTHER], True, "eni--a--dashboard, eni--a--audit. Say which with --as"),
        ("eni--a--x", [STREAM], True, "eni--a--x has no.*by eni--a--dashboard: name one.*--as"),
        ("eni--a--x", [CALLED], True, "eni--a--x has no.*callbacks of other clients only"),
    ],
)
def test_a_mistake_says_what_is_wrong_and_what_to_do_next(
    client_id: str | None, found: list[Resource], is_exposed: bool, words: str
) -> None:
    with pytest.raises(CommandFailed, match=words):
        choose(asked(client_id), found, is_exposed=is_exposed)


def test_many_streams_are_named_up_to_a_bound() -> None:
    many = [subscription(f"eni--a--c{number}") for number in range(8)]
    with pytest.raises(CommandFailed, match="eni--a--c4 and 3 more"):
        choose(asked(), many, is_exposed=True)
