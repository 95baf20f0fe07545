"""How a catalog names an object that it shares with later catalogs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRef:
    """One immutable Parquet object with `rows` rows: its key, and the hash of its bytes."""

    key: str
    hash: str
    rows: int
