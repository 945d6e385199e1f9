"""Starts the multiplexer: `python -m services.multiplexer`."""

from libs.common.main import main
from services.multiplexer.bootstrap import run
from services.multiplexer.settings import MultiplexerSettings

if __name__ == "__main__":
    main("multiplexer", MultiplexerSettings, run)
