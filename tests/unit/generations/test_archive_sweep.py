"""What came back into the place of a removed archive is swept once nobody has put anything there for a day."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

from offsite.generations.archive_target import ArchiveTarget
from offsite.repository.generation_sets.entry import Founding


def test_an_archive_that_is_being_brought_back_is_not_swept(tmp_path: Path) -> None:
    place = str(tmp_path)
    founding = Founding(cluster_id="c", include=("t",), exclude=(), internal=False, target="avro", place=place)
    target = ArchiveTarget(SimpleNamespace(place=place, name="pair"), founding, SimpleNamespace())  # type: ignore[arg-type]
    first, second = (tmp_path / "pair.gen-1" / name for name in ("a.data", "b.data"))
    announced: list[int] = []
    target.sweep(1, announced.append, removed_ms=0)
    first.parent.mkdir()
    for path in (first, second):
        path.write_bytes(b"records")
    long_ago_s = time.time() - 25 * 3600
    os.utime(first, (long_ago_s, long_ago_s))
    target.sweep(1, announced.append, removed_ms=0)
    assert (first.exists(), second.exists(), announced) == (True, True, [])
    os.utime(second, (long_ago_s, long_ago_s))
    target.sweep(1, announced.append, removed_ms=round(time.time() * 1000))
    assert (first.exists(), second.exists(), announced) == (True, True, []), "a copy that keeps times"
    target.sweep(1, announced.append, removed_ms=0)
    assert (first.exists(), second.exists(), announced) == (False, False, [14])
