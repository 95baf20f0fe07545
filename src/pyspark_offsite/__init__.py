"""How Spark finds the format `offsite` by itself: it looks for modules named `pyspark_*` with a `DefaultSource`."""

from __future__ import annotations

from offsite.table.datasource import OffsiteDataSource as DefaultSource

__all__ = ["DefaultSource"]
