"""Which stream to read: the subscription of a client to an event type, from what control knows.

Pure. Every mistake becomes one sentence about what is wrong, and one about what to do next.
"""

import difflib
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from libs.cli.errors import CommandFailed
from libs.common.resources import Resource

STREAM: Final = "server_sent_event"
NAMED_MAX: Final = 5

Command = Callable[..., str]
"""Makes of words a command line of `meridian` that can be typed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A subscription that is read as a stream."""

    subscription_id: str
    client_id: str
    event_type: str
    environment: str

    @property
    def path(self) -> str:
        """Where it is read, below the address of the streams."""
        return f"/v1/{self.environment}/sse/{self.subscription_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person wants to listen to."""

    event_type: str
    environment: str
    client_id: str | None
    """None: whoever reads the type as a stream."""
    command: Command


def choose(asked: Asked, subscriptions: Sequence[Resource], *, is_exposed: bool) -> Stream:
    """The one stream of the type among all subscriptions; CommandFailed when there is none."""
    found: Sequence[Resource] = [each for each in subscriptions if _type(each) == asked.event_type]
    if asked.client_id is not None:
        found = [each for each in found if each.owner == asked.client_id] or _no_such(asked, found)
    streams = [each for each in found if each.spec.get("deliveryType") == STREAM]
    if len(streams) == 1:
        return stream_of(streams[0])
    if streams:
        raise CommandFailed(
            f"Several clients read {asked.event_type} as a stream: {_clients(streams)}. Say which "
            "with --as."
        )
    if found:
        raise _only_callbacks(asked, found)
    if is_exposed:
        raise CommandFailed(
            f"Nobody subscribes to {asked.event_type} in {asked.environment}: {_rover_line(asked)}"
        )
    raise _unknown(asked, known={_type(each) for each in subscriptions})


def stream_of(subscription: Resource) -> Stream:
    """The stream of a subscription."""
    return Stream(
        subscription_id=subscription.id,
        client_id=subscription.owner,
        event_type=_type(subscription),
        environment=subscription.environment,
    )


def _no_such(asked: Asked, found: Sequence[Resource]) -> Sequence[Resource]:
    """Says who else has the type; empty when nobody has it."""
    if not found:
        return found
    streams = [each for each in found if each.spec.get("deliveryType") == STREAM]
    others = (
        f"It is read as a stream by {_clients(streams)}: name one of them with --as, or"
        if streams
        else "It is delivered to callbacks of other clients only:"
    )
    raise CommandFailed(
        f"Client {asked.client_id} has no subscription to {asked.event_type} in "
        f"{asked.environment}. {others} {_rover_line(asked)}"
    )


def _only_callbacks(asked: Asked, found: Sequence[Resource]) -> CommandFailed:
    callbacks = ", ".join(
        f"{each.owner} at {each.spec.get('callback')}" for each in found[:NAMED_MAX]
    )
    return CommandFailed(
        f"{asked.event_type} is delivered to callbacks only: {callbacks}. Another application can "
        f"read it as a stream: {_rover_line(asked)}"
    )


def _unknown(asked: Asked, *, known: Set[str]) -> CommandFailed:
    similar = difflib.get_close_matches(asked.event_type, sorted(known), n=1)
    spelling = f"did you mean {similar[0]}? Else" if similar else "check its spelling, or"
    return CommandFailed(
        f"Nobody exposes or subscribes to {asked.event_type} in {asked.environment}: {spelling} "
        f"{_rover_line(asked)}"
    )


def _type(subscription: Resource) -> str:
    return str(subscription.spec.get("type"))


def _rover_line(asked: Asked) -> str:
    apply = asked.command("apply", "-f", "FILE")
    return (
        "apply a Rover file with a subscription of 'deliveryType: server_sent_event' to it "
        f"({apply}); examples/quickstart.yaml has one."
    )


def _clients(streams: Sequence[Resource]) -> str:
    more = f" and {len(streams) - NAMED_MAX} more" if len(streams) > NAMED_MAX else ""
    return ", ".join(each.owner for each in streams[:NAMED_MAX]) + more
