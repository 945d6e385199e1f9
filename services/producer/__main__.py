"""Starts the publish service: `python -m services.producer`."""

from libs.common.main import main
from services.producer.bootstrap import run
from services.producer.settings import ProducerSettings

if __name__ == "__main__":
    main("producer", ProducerSettings, run)
