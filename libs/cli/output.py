"""How the command line words things. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

DATA_CHARACTERS_MAX: Final = 160
BODY_CHARACTERS_MAX: Final = 500


def problem(status: int, body: bytes) -> str:
    """A refused request in words: title, detail, and every fault with its place.

    A detail that only repeats the faults is left out. `body` is a problem document (RFC 9457);
    anything else is shown as it is, shortened.
    """
    document = _object(body)
    if document is None:
        return f"HTTP {status} {shortened(body.decode(errors='replace'), BODY_CHARACTERS_MAX)}"
    title = str(document.get("title") or f"HTTP {status}")
    lines = [f"{title} (HTTP {status})"]
    detail = str(document.get("detail") or "")
    faults = _faults(document)
    if detail and not (faults and all(said in detail for _, said in faults)):
        lines.append(f"  {detail}")
    lines += [f"  {pointer}: {said}" for pointer, said in faults]
    return "\n".join(lines)


def received(event: Mapping[str, Any], headers: Mapping[str, str], *, clock: str) -> str:
    """One line about an event that arrived at `clock`, a time of day."""
    publisher = headers.get("x-pubsub-publisher-id", "")
    return (
        f"{clock}  {event.get('type', 'no CloudEvent')}  {event.get('id', '')}"
        f"{f'  from {publisher}' if publisher else ''}  "
        f"{shortened(json.dumps(event.get('data'), ensure_ascii=False), DATA_CHARACTERS_MAX)}"
    )


def applied(
    answer: Mapping[str, Any], *, streams_url: str = "", command: Callable[..., str]
) -> list[str]:
    """What control answered to an applied Rover file, line by line.

    `command` makes of words a command line that can be typed.
    """
    lines = [f"{answer['name']}: applied in {answer['environment']} as {answer['clientId']}"]
    lines += [f"  exposes {each['eventType']}" for each in answer.get("exposures", [])]
    for each in answer.get("subscriptions", []):
        if "stream" in each:
            listen = command("listen", each["eventType"], "--as", answer["clientId"])
            lines.append(f"  subscribes to {each['eventType']}, read as a stream")
            lines.append(f"    subscription {each['id']}")
            lines.append(f"    at {streams_url}{each['stream']}")
            lines.append(f"    listen: {listen}")
        else:
            lines.append(f"  subscribes to {each['eventType']}, delivered to {each['callback']}")
            lines.append(f"    subscription {each['id']}")
    return [*lines, *(f"  Note: {notice}" for notice in answer.get("notices", []))]


def greeting(
    *, publish: str, streams: str, control: str, home: Path, next_steps: Sequence[str]
) -> list[str]:
    """What to know about a platform that has just become ready: addresses, home, commands."""
    return [
        f"Meridian is ready. State, logs and endpoints.json: {home}",
        f"Publish: {publish}   Streams: {streams}   Control: {control}",
        "For development only: callbacks to this machine and by plain http are allowed,",
        "and whoever has the client secret in endpoints.json can be any client.",
        "Next, each in a terminal of its own:",
        *(f"  {step}" for step in next_steps),
    ]


def shortened(text: str, characters_max: int) -> str:
    """The text, cut with an ellipsis when it is longer."""
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def _faults(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pointer and detail of every fault that a problem document lists."""
    listed = document.get("errors")
    return [
        (str(fault.get("pointer") or "document"), str(fault.get("detail")))
        for fault in (listed if isinstance(listed, list) else ())
        if isinstance(fault, dict)
    ]


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
