"""A backup in a folder, for the tests of a repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.repository.backup import Backup
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import new_backup


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


@pytest.fixture
def backup(store: PosixStore) -> Backup:
    return new_backup(store)
