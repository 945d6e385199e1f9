"""Makes the CloudEvent that `meridian publish` sends. Pure."""

import json
from datetime import datetime
from typing import Any, Final

from libs.cli.errors import WrongUsage

SOURCE_DEFAULT: Final = "meridian-cli"


def parse_data(text: str) -> Any:
    """The JSON value in the argument of `--data`; WrongUsage when it is none."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise WrongUsage(
            f"--data is not JSON ({error}); put it in single quotes: --data '{{\"orderId\": 1}}'."
        ) from error


def event(
    event_type: str, data: Any, *, event_id: str, source: str, now: datetime
) -> dict[str, Any]:
    """A CloudEvent 1.0; `now` is in UTC."""
    return {
        "specversion": "1.0",
        "id": event_id,
        "type": event_type,
        "source": source,
        "time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": data,
    }
