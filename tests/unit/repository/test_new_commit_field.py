"""Walks `docs/change/commit-field.md`: a field named in three files is stored, read, folded and catalogued."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import offsite

SOURCE = Path(offsite.__file__).parent
ADDED = {
    "commit.py": ("    cut_refused: Spare[bool] = False\n", "    moon: Spare[Count] = 0\n"),
    "state.py": ("    pins: Spare[tuple[Pin, ...]] = ()\n", "    moon: Spare[int] = 0\n"),
    "fold.py": ("            is_own=False,\n", "            moon=max(changes.moon, self._state.moon),\n"),
}
PROOF = """
from offsite.repository.catalogs.partition_table import decode_partitions, encode_partitions
from offsite.repository.commit import Commit, CommitChanges, StoredCommit
from offsite.repository.commit_log import commit_hash, decode_commit, encode_commit
from offsite.repository.fold import fold
from offsite.repository.state import BackupState

commit = Commit(backup="b", seq=1, previous="", writer="w", committed_at_ms=1, changes=CommitChanges(moon=7))
data = encode_commit(commit)
assert b'"moon":7' in data and decode_commit(data, key="k") == commit
assert b"moon" not in encode_commit(Commit(backup="b", seq=1, previous="", writer="w", committed_at_ms=1))
state = fold(BackupState(backup="b"), [StoredCommit(commit=commit, hash=commit_hash(data))])
assert state.moon == 7
assert decode_partitions(encode_partitions(state, ()), key="k", parts=(), recovery_of=lambda _: None).moon == 7
"""


@pytest.mark.slow
def test_a_field_is_named_in_three_files(tmp_path: Path) -> None:
    copy = tmp_path / "offsite"
    _link(SOURCE, copy, but="repository")
    _link(SOURCE / "repository", copy / "repository")
    for name, (before, added) in ADDED.items():
        text = (SOURCE / "repository" / name).read_text()
        assert text.count(before) == 1, name
        (copy / "repository" / name).unlink()
        (copy / "repository" / name).write_text(text.replace(before, before + added))
    proof = [sys.executable, "-B", "-c", PROOF]
    subprocess.run(proof, check=True, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path)


def _link(source: Path, target: Path, *, but: str = "") -> None:
    target.mkdir()
    for entry in source.iterdir():
        if entry.name not in {but, "__pycache__"}:
            (target / entry.name).symlink_to(entry)
