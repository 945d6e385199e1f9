"""Starts the stream service: `python -m services.sse`."""

from libs.common.main import main
from services.sse.bootstrap import run
from services.sse.settings import SseSettings

if __name__ == "__main__":
    main("sse", SseSettings, run)
