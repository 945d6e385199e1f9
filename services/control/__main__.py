"""Starts the control plane: `python -m services.control`."""

from libs.common.main import main
from services.control.bootstrap import run
from services.control.settings import ControlSettings

if __name__ == "__main__":
    main("control", ControlSettings, run)
