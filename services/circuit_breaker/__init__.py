"""Shows the circuits of callbacks to administrators and subscribers."""
