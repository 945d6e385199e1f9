"""Which request headers travel with an event to its subscribers.

Never do headers that belong to one connection or one body, the CloudEvents headers (subscribers
get the event as JSON; beside it `ce-*` would announce binary mode), and those of the trace, which
the platform continues itself. A list of patterns, the operator's, drops more.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from libs.common import trace
from libs.common.errors import InvalidRequest, Violation
from services.producer.domain.content import Headers

NAMES_MAX: Final = 100
BYTES_MAX: Final = 16_384
NAMES_REMEMBERED_MAX: Final = 4_096

_NEVER: Final = (
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-.*",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "ce-.*",
    *map(re.escape, sorted(trace.HEADER_NAMES)),
)


class HeaderFilter:
    """Drops headers whose whole lower-case name matches one of the patterns.

    Raises re.error for a pattern that is no regular expression.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        parts = [re.compile(pattern).pattern for pattern in (*_NEVER, *patterns)]
        dropped = re.compile("|".join(f"(?:{part})" for part in parts))
        self._is_dropped = lru_cache(NAMES_REMEMBERED_MAX)(
            lambda name: dropped.fullmatch(name) is not None
        )

    def forwarded(self, headers: Headers) -> dict[str, list[str]]:
        """The headers that travel, each value once, in their order.

        Raises InvalidRequest for more than 100 names or 16 KiB of names and values.
        """
        kept = {
            name: list(dict.fromkeys(values)) if len(values) > 1 else list(values)
            for name, values in headers.items()
            if not self._is_dropped(name)
        }
        size = sum(len(name) + sum(map(len, values)) for name, values in kept.items())
        if len(kept) > NAMES_MAX or size > BYTES_MAX:
            raise InvalidRequest(
                f"The request has {len(kept)} headers with {size} bytes that would travel with the "
                f"event; at most {NAMES_MAX} headers and {BYTES_MAX} bytes do.",
                [Violation("/headers", "are too many or too long")],
            )
        return kept
