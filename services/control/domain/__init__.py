"""Decisions of the control plane: what a document says, whether it may, what it changes. Pure."""
