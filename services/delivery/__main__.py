"""Starts delivery: `python -m services.delivery`."""

from libs.common.main import main
from services.delivery.bootstrap import run
from services.delivery.settings import DeliverySettings

if __name__ == "__main__":
    main("delivery", DeliverySettings, run)
