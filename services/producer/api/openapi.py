"""The OpenAPI description of the publish API, written by hand: the route is a plain one."""

from typing import Any, Final

from libs.common import problem
from services.producer.domain import content

_PROBLEMS: Final = {
    400: "The event, its headers or its encoding break rules; `errors` lists all of them.",
    401: "The token is missing, expired, of an untrusted issuer, or of another realm.",
    403: "The client is not a publisher of the type, or nobody knows the type.",
    404: "The path is none of this service.",
    405: "The method is none of this path; `Allow` lists what is.",
    408: "The body did not arrive in time.",
    413: "The data, the body or the record made from it is too large.",
    415: "The content type is not taken.",
    503: "Nothing was stored: too busy, starting or stopping, Kafka or the issuer is unreachable.",
    504: "Kafka did not acknowledge in time: unknown. Repeat with the same id.",
}

_TEXT: Final = {"type": "string", "minLength": 1}
_EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["id", "type", "source", "specversion"],
    "properties": {
        "id": {**_TEXT, "description": "A UUID when sent as application/json."},
        "type": {"type": "string", "pattern": "^[A-Za-z0-9.-]+$"},
        "source": _TEXT,
        "specversion": _TEXT,
        "time": {"type": "string", "format": "date-time", "description": "Default: now."},
        "datacontenttype": {"type": "string"},
        "dataschema": {"type": "string"},
        "subject": {"type": "string"},
        "partitionkey": {**_TEXT, "description": "Events with equal keys keep their order."},
        "dataref": {"type": "string"},
        "data": {"description": "Any JSON; delivered byte for byte."},
        "data_base64": {"type": "string", "contentEncoding": "base64"},
    },
    "additionalProperties": {"type": ["string", "integer", "boolean"]},
}
_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
    },
}


def document() -> dict[str, Any]:
    """The whole description."""
    environment = {
        "name": "environment",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "pattern": "^[a-z0-9-]{1,63}$"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Meridian publish API", "version": "1"},
        "paths": {
            "/v1/{environment}/events": {"parameters": [environment], **_operations("publish")},
            "/horizon/events/v1": _operations("publishByRealm"),
        },
        "components": {
            "schemas": {"Event": _EVENT, "Problem": _PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
            },
        },
    }


def _operations(operation_id: str) -> dict[str, Any]:
    schema = {"schema": {"$ref": "#/components/schemas/Event"}}
    return {
        "post": {
            "operationId": operation_id,
            "summary": "Publish one event",
            "description": "Answered once Kafka has stored it. CloudEvents binary mode is taken "
            "too: attributes in `ce-*` headers, the data as the body.",
            "security": [{"token": []}],
            "requestBody": {
                "required": True,
                "content": {
                    content.JSON: schema,
                    content.CLOUDEVENTS_JSON: schema,
                    "*/*": {"schema": {}},
                },
            },
            "responses": {
                "201": {"description": "Stored."},
                "202": _problem_response("Stored, but nobody is subscribed."),
                **{str(status): _problem_response(text) for status, text in _PROBLEMS.items()},
            },
        },
        "head": {
            "operationId": f"{operation_id}Health",
            "summary": "Whether the service answers",
            "responses": {"204": {"description": "It does; X-Health-Check-Timestamp says when."}},
        },
    }


def _problem_response(description: str) -> dict[str, Any]:
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {"description": description, "content": {problem.CONTENT_TYPE: schema}}
