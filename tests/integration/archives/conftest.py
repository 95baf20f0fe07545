from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store
from tests.integration.archives.exchange import Exchange
from tests.s3_servers import ENVIRONMENT, moto_server, new_s3_store


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    """A repository and archives in folders."""
    repository = Repository.init(open_store(str(tmp_path / "repository")))
    return Exchange(repository=repository, places=str(tmp_path / "archives"))


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(moto: str, monkeypatch: pytest.MonkeyPatch) -> Exchange:
    """The same in a bucket."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    store = new_s3_store(moto)
    return Exchange(repository=Repository.init(store), places=f"{store.url}/archives?endpoint={moto}")
