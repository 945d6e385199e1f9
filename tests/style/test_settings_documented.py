"""docs/operations.md names every setting and metric of the services, with the right defaults."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client import Counter, Gauge, Histogram
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from libs.common.settings import ServiceSettings, variable_names
from services.circuit_breaker import metrics as circuit_breaker_metrics
from services.circuit_breaker.settings import CircuitBreakerSettings
from services.control import metrics as control_metrics
from services.control.settings import ControlSettings
from services.delivery import metrics as delivery_metrics
from services.delivery.settings import DeliverySettings
from services.multiplexer import metrics as multiplexer_metrics
from services.multiplexer.settings import MultiplexerSettings
from services.producer import metrics as producer_metrics
from services.producer.settings import ProducerSettings
from services.sse import metrics as sse_metrics
from services.sse.settings import SseSettings

PAGE: Final = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")

SETTINGS: Final[Mapping[str, tuple[type[ServiceSettings], tuple[str, ...]]]] = {
    "producer": (ProducerSettings, ("Every service", "Services with an API", "Producer")),
    "control": (ControlSettings, ("Every service", "Services with an API", "Control")),
    "multiplexer": (MultiplexerSettings, ("Every service", "Multiplexer")),
    "delivery": (DeliverySettings, ("Every service", "Delivery")),
    "sse": (SseSettings, ("Every service", "Services with an API", "Streams")),
    "circuit_breaker": (
        CircuitBreakerSettings,
        ("Every service", "Services with an API", "Circuit breaker"),
    ),
}
"""Settings of each service, and the sections of the page that describe them."""

METRICS: Final = (
    producer_metrics,
    control_metrics,
    multiplexer_metrics,
    delivery_metrics,
    sse_metrics,
    circuit_breaker_metrics,
)

ROW: Final = re.compile(r"^\| `(\w+)` \|(?: `(.*?)`)? \|", re.MULTILINE)
"""A row of a table of settings: name, default."""


def section(title: str, level: str) -> str:
    """The text below a heading, up to the next heading of the same or a higher level."""
    found = re.search(
        rf"^{level} {title}\n(.*?)(?=^#{{2,{len(level)}}} |\Z)", PAGE, re.MULTILINE | re.DOTALL
    )
    assert found is not None, f"no section {title}"
    return found[1]


def on_page(prefix: str, titles: tuple[str, ...]) -> dict[str, str]:
    """Variables with their defaults, as the page has them."""
    rows = [row for title in titles for row in ROW.findall(section(title, "###"))]
    names = [name for name, _ in rows]
    assert len(names) == len(set(names)), "a setting is described twice"
    return {prefix + name: default for name, default in rows}


def in_code(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str]]:
    """Variables with their defaults, groups by their parts."""
    for name, field in model.model_fields.items():
        default = field.default
        assert default is not PydanticUndefined or field.default_factory is not None
        variable = f"{prefix}{name}".upper()
        if isinstance(default, BaseModel):
            yield from in_code(type(default), f"{variable}__")
        else:
            yield variable, "" if default is PydanticUndefined else written(default)


def written(default: Any) -> str:
    """A default as one would write it into the environment."""
    match default:
        case None:
            return ""
        case bool():
            return str(default).lower()
        case float():
            return f"{default:g}"
        case tuple():
            return ",".join(map(str, default))
        case _:
            return str(default)


@pytest.mark.parametrize("service", SETTINGS)
def test_the_page_has_every_setting_of_a_service_with_its_default(service: str) -> None:
    settings, titles = SETTINGS[service]
    prefix = f"MERIDIAN_{service.upper()}_"
    assert on_page(prefix, titles) == dict(in_code(settings, prefix))


@pytest.mark.parametrize("service", SETTINGS)
def test_every_variable_that_a_service_accepts_is_on_the_page(service: str) -> None:
    settings, titles = SETTINGS[service]
    prefix = f"MERIDIAN_{service.upper()}_"
    accepted = variable_names(settings, prefix)
    groups = {name for name in accepted if any(f"{name}__" in other for other in accepted)}
    assert accepted - groups == set(on_page(prefix, titles))


def test_the_page_has_every_metric_of_the_services_and_no_other() -> None:
    exposed = {
        name
        for module in METRICS
        for metric in vars(module).values()
        if isinstance(metric, Counter | Gauge | Histogram)
        for name in exposed_names(metric)
    }
    assert set(re.findall(r"^\| `(\w+)` \|", section("Metrics", "##"), re.MULTILINE)) == exposed


def exposed_names(metric: Counter | Gauge | Histogram) -> Iterator[str]:
    """Names under which a metric is scraped: `_total` for counters, the bare name for others."""
    for family in metric.describe():
        yield f"{family.name}_total" if family.type == "counter" else family.name
