"""The repository of a golden test: the folder that its module names by `GOLDEN`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder


@pytest.fixture
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    """A copy: restores leave their records."""
    shutil.copytree(request.module.GOLDEN, tmp_path / "repository")
    return Repository.open(open_folder(tmp_path / "repository"))
