"""Reads what was published and writes one record per matching subscription."""
