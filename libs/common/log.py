"""Structured logs: one JSON object a line on standard output.

Event names are `noun.happened`; ids are bound once; payloads and secrets are never logged.
Records of libraries that use the standard `logging` come out in the same form.
"""

import logging
import sys
from typing import Any

import structlog


def configure(*, service: str, instance: str, level: str) -> None:
    """Sets up logging for the process; `level` is debug, info, warning or error."""

    def identify(_: Any, __: str, entry: Any) -> Any:
        return {**entry, "service": service, "instance": instance}

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        identify,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for chatty in ("httpx", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger
