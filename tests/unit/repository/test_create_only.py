from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from offsite.log.buffer import Buffer
from offsite.model.errors import OverwritingStore, StoreDenied
from offsite.repository.layout import PROBE_KEY
from offsite.repository.repository import Repository, check_create_only
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_store
from offsite.stores.store import PutResult, Store
from tests.backups import SELECTION
from tests.faulty_store import FaultyStore


class Overwriting(FaultyStore):
    """Says that it created what it replaced."""

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        self.inner.delete(key)
        return super().put_if_absent(key, data)


class WithoutProbes(FaultyStore):
    """Lets nobody write below `probes/`."""

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        if key == PROBE_KEY:
            raise StoreDenied(f"cannot write {key}")
        return super().put_if_absent(key, data)


@pytest.fixture(params=["posix", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = open_store(str(tmp_path))
    return made if request.param == "posix" else CloudStore(url=f"memory:///{uuid.uuid4()}")


def test_a_good_store_passes_every_time_and_keeps_one_probe(store: Store) -> None:
    check_create_only(store)
    kept = store.get(PROBE_KEY)
    check_create_only(store)
    assert store.get(PROBE_KEY) == kept
    assert [info.key for info in store.list("")] == [PROBE_KEY]


def test_a_later_check_costs_one_put(store: Store) -> None:
    check_create_only(store)
    counting = FaultyStore(store)
    check_create_only(counting)
    assert counting.effects == 1


def test_an_overwriting_store_is_found_with_and_without_an_earlier_probe(store: Store) -> None:
    for _ in range(2):
        with pytest.raises(OverwritingStore):
            check_create_only(Overwriting(store))
    with pytest.raises(OverwritingStore):
        Repository.init(Overwriting(store))
    repository = Repository.init(store)
    with pytest.raises(OverwritingStore):
        Repository(store=Overwriting(store), descriptor=repository.descriptor).create_backup(
            "b", cluster_id="c", selection=SELECTION
        )
    assert repository.backups() == ()


def test_who_may_not_probe_goes_on_with_a_warning(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    made = Repository.init(store)
    with caplog.at_level(logging.WARNING):
        Repository(store=WithoutProbes(store), descriptor=made.descriptor).create_backup(
            "b", cluster_id="c", selection=SELECTION
        )
    assert "unchecked" in caplog.text
