"""All targets by name. Each is made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.fuzz import (
    corpus_archives,
    corpus_batches,
    corpus_bombs,
    corpus_fetch,
    corpus_kafka,
    corpus_objects,
    corpus_repository,
)
from tests.fuzz.target import Target, Trust

Make = Callable[[], Target]

_EXPORTS: dict[str, tuple[str, str | None, int | None]] = {
    "avro": ("avro", None, 600),
    "avro-plain": ("avro", "null", None),
    "parquet": ("parquet", None, None),
    "jsonl": ("jsonl", None, 2_000),
    "jsonl-gzip": ("jsonl", "gzip", None),
    "jsonl-zstd": ("jsonl", "zstd", None),
    "osodevops": ("osodevops", None, None),
    "kafka-backup": ("kafka-backup", None, 1_000),
}
"""Fresh exports: format, compression, where a file ends."""
_UNHASHED = frozenset({"kafka-backup"})
_APPENDED = ("avro", "parquet", "jsonl", "osodevops", "kafka-backup")


def _both(name: str, make: Callable[..., Target]) -> dict[str, Make]:
    """As it is, and with hashes made anew."""
    return {name: partial(make, trust=Trust.HASHED), f"{name}-renewed": partial(make, trust=Trust.RENEWED)}


def _foreign(name: str, make: Callable[..., Target]) -> dict[str, Make]:
    """The same of a format without hashes, some of which have checksums that can be made anew."""
    return {name: partial(make, trust=Trust.UNHASHED), f"{name}-renewed": partial(make, trust=Trust.RENEWED)}


def _targets() -> dict[str, Make]:
    found: dict[str, Make] = {}
    for folder in sorted(corpus_repository.GOLDEN.glob("format-*")):
        found |= _both(f"golden-{folder.name}", partial(corpus_repository.golden, folder.name))
    found |= _both("repository", corpus_repository.fresh)
    found |= _both("commits", corpus_repository.commits)
    found |= _both("restore-records", corpus_objects.restore_records)
    found["offset-map"] = corpus_objects.offset_map
    found["segment-index"] = corpus_objects.segment_index
    found["group-snapshot"] = corpus_objects.group_snapshot
    found["cluster-settings"] = corpus_objects.cluster_settings
    for name, (kind, compression, file_bytes) in _EXPORTS.items():
        make = partial(corpus_archives.export, kind, compression=compression, file_bytes=file_bytes)
        found |= (
            {f"export-{name}": partial(make, trust=Trust.UNHASHED)}
            if kind in _UNHASHED
            else _both(f"export-{name}", make)
        )
    found |= {f"append-{kind}": partial(corpus_archives.appended, kind) for kind in _APPENDED}
    found["kafka-backup-tools"] = corpus_archives.tools
    found["peer-kafka-backup"] = partial(corpus_archives.peers, "kafka-backup", "kafka-backup", trust=Trust.UNHASHED)
    for variant in ("mixed-default", "mixed-none-nohdr"):
        found |= _foreign(
            f"peer-osodevops-{variant}", partial(corpus_archives.peers, "osodevops", f"osodevops/{variant}")
        )
    found |= _foreign("peer-trivadis", corpus_archives.trivadis)
    for codec, name in enumerate(corpus_batches.CODECS):
        found |= _both(f"batch-{name}", partial(corpus_batches.batch, codec))
    found |= _both("batch-control", corpus_batches.control)
    found |= {f"kafka-{name}": partial(corpus_kafka.api, name) for name in corpus_kafka.APIS}
    found["kafka-frame"] = corpus_fetch.frame
    found["kafka-produce"] = corpus_fetch.produced
    found["kafka-fetch-13"] = corpus_fetch.fetched_by_id
    found["kafka-fetches"] = partial(corpus_fetch.fetches, times=1)
    found["kafka-fetches-only"] = partial(corpus_fetch.fetches, times=corpus_fetch.FOR_EVER)
    return found


TARGETS = _targets()
BOMB_TARGETS: dict[str, Make] = {f"bomb-{name}": make for name, make in corpus_bombs.BOMBS.items()}
