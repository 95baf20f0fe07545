"""`python -m bench.commit_bytes`: what a commit weighs and costs when thousands of partitions have news in a round."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa  # type: ignore[import-untyped]

from bench.large_repository import NAME, Large, news
from offsite.repository.commit import Commit, CommitChanges, PartitionId, Position, StoredCommit
from offsite.repository.commit_log import decode_commit, encode_commit
from offsite.repository.fold import fold
from offsite.repository.layout import BackupLayout
from offsite.repository.state import BackupState

T = TypeVar("T")

_LAYOUT = BackupLayout(backup=NAME)
_SEQ = 11
_drawn = random.Random(1)  # noqa: S311  # figures, not secrets


def main() -> None:
    for topics in (200, 2_000):
        state = Large(topics=topics, partitions=10, segments=0, commits=_SEQ - 1, tail=0).state()
        base = replace(state, head_hash="0" * 64, positions=_anywhere(state))
        commit = _commit(base)
        data = _timed("encode", lambda commit=commit: encode_commit(commit))  # type: ignore[misc]
        _timed("decode", lambda data=data: decode_commit(data, key=_LAYOUT.commit_key(_SEQ)))  # type: ignore[misc]
        stored = StoredCommit(commit=commit, hash="0" * 64)
        _timed("fold", lambda base=base, stored=stored: fold(base, [stored]))  # type: ignore[misc]
        small = _timed("zstd", lambda data=data: pa.Codec("zstd", compression_level=3).compress(data, asbytes=True))  # type: ignore[misc]
        each = 10 * topics
        print(f"{each} partitions: {len(data) / each:.0f} bytes for each, {len(small) / each:.0f} as zstd", flush=True)


def _commit(base: BackupState) -> Commit:
    return Commit(
        backup=NAME,
        seq=_SEQ,
        previous=base.head_hash,
        writer="w",
        committed_at_ms=base.committed_at_ms + 1,
        changes=_packed(news(base, list(base.positions))),
    )


def _anywhere(state: BackupState) -> dict[PartitionId, Position]:
    """No two partitions are as long."""
    return {known: replace(each, end=_drawn.randrange(10**9)) for known, each in state.positions.items()}


def _packed(changes: CommitChanges) -> CommitChanges:
    """With all segments in one object, each of another size."""
    pack, segments, position = _LAYOUT.pack_key(_SEQ - 1, "5f2a9c1b"), [], 0
    for each in changes.segments:
        size = _drawn.randrange(20_000, 2_000_000)
        base_ms = each.base_timestamp_min_ms + _drawn.randrange(10_000)
        segment = replace(each, pack=pack, position=position, raw_bytes=size, stored_bytes=size // 3)
        segments.append(replace(segment, base_timestamp_min_ms=base_ms, timestamp_max_ms=base_ms + size % 7_919))
        position += size // 3
    return replace(changes, segments=tuple(segments))


def _timed(what: str, do: Callable[[], T]) -> T:
    start_s = time.process_time()
    found = do()
    print(f"  {what}: {(time.process_time() - start_s) * 1000:.0f} ms of CPU", flush=True)
    return found


if __name__ == "__main__":
    main()
