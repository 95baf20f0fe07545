from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from offsite.model.errors import DamagedObject, StoreUnreachable
from offsite.operator.core import files
from offsite.operator.core.files import create_whole, locked, read_json, write_json, write_whole


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "one"

    assert create_whole(path, b"first")
    assert not create_whole(path, b"second")
    assert path.read_bytes() == b"first"


def test_what_is_written_is_for_its_owner_alone_and_leaves_nothing_beside(tmp_path: Path) -> None:
    write_whole(tmp_path / "folder" / "one", b"x")
    write_whole(tmp_path / "folder" / "one", b"y")

    (only,) = (tmp_path / "folder").iterdir()
    assert (only.read_bytes(), only.stat().st_mode & 0o777) == (b"y", 0o600)


def test_what_was_altered_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    assert read_json(path) is None
    write_json(path, {"by": "me"})
    path.write_bytes(path.read_bytes().replace(b"me", b"us"))

    with pytest.raises(DamagedObject):
        read_json(path)


def test_a_lock_is_free_when_its_process_was_killed(tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from offsite.operator.core.files import locked
with locked(Path({str(tmp_path / "lock")!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], timeout=60, check=False)

    with locked(tmp_path / "lock"):
        pass


def test_a_lock_that_somebody_keeps_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOCK_MAX_S", 0.1)
    with (tmp_path / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StoreUnreachable, match="another process has held"), locked(tmp_path / "lock"):
            pass
