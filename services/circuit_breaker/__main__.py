"""Starts the circuit breaker: `python -m services.circuit_breaker`."""

from libs.common.main import main
from services.circuit_breaker.bootstrap import run
from services.circuit_breaker.settings import CircuitBreakerSettings

if __name__ == "__main__":
    main("circuit_breaker", CircuitBreakerSettings, run)
