"""What a drill has proven: one document for scripts, and the same as a page for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from offsite.services.hole_report import HoleReport


@dataclass(frozen=True, slots=True, kw_only=True)
class DrilledTopic:
    """`digests` has one entry for each partition that held anything: `partition: blake3:…`, over all its records."""

    source: str
    target: str
    partitions: int
    same_offsets: bool
    records: int
    bytes: int
    invisible_records: int
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """`proven`: everything selected was restored, read back, and is what the backup holds; else `problem` or `findings`
    say why not. None: neither proven nor refuted, because there was nothing to restore, or some of it could not be read
    back. `lacking` is what the backup itself does not have. Times are the store's clock; `place` says where it was
    restored to. `removed` are the topics that were removed afterwards, `leftovers` those of killed drills."""

    drill: str
    backup: str
    repository: str
    by: str
    versions: Mapping[str, str]
    began: str
    place: str
    ended: str = ""
    proven: bool | None = False
    problem: str = ""
    findings: tuple[str, ...] = ()
    commit: int = 0
    committed: str = ""
    restore: str = ""
    cluster_id: str = ""
    isolation: str = ""
    records: int = 0
    bytes: int = 0
    restore_s: float = 0.0
    compare_s: float = 0.0
    topics: tuple[DrilledTopic, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    holes: int = 0
    lacking: tuple[HoleReport, ...] = ()
    removed: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
