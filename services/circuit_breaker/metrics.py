"""Metrics of the circuit breaker."""

from prometheus_client import Gauge

open_circuits = Gauge(
    "open_circuit_breakers", "Circuits that are not CLOSED (Horizon's name, without its labels)."
)
