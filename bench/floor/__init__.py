"""The least that could do the work of a row: what Meridian's own work is measured against."""
