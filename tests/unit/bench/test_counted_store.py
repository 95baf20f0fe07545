"""The counting store counts what a real S3 server is asked for."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from bench.at_scale.counted_store import DELETE, GET, PUT, CountedStore, what
from offsite.stores.posix_store import open_folder
from tests.s3_servers import moto_server, new_s3_store


def _ask(store: CountedStore) -> None:
    store.put_if_absent("a/one", b"1")
    store.put_overwrite("a/hint", b"2")
    writer = store.open_write("a/large")
    writer.write(b"3")
    writer.write(b"4")
    writer.close()
    given_up = store.open_write("a/never")
    given_up.write(b"5")
    given_up.abort()
    assert store.get("a/one") == b"1"
    assert store.get_range("a/large", 1, 1) == b"4"
    assert store.head("a/large") is not None
    assert len(list(store.list("a/"))) == 3
    store.now_ms()
    store.delete("a/one")


@pytest.mark.slow
def test_as_many_requests_as_a_server_sees(tmp_path: Path) -> None:
    seen: list[None] = []
    counts = tmp_path / "counts"
    counts.mkdir()
    with moto_server(before=lambda: seen.append(None)) as endpoint:
        inner = new_s3_store(endpoint)
        store = CountedStore(inner=inner, folder=counts)
        seen.clear()
        _ask(store)

    taken = store.taken()
    assert sum(taken.values()) == len(seen)
    kinds = {kind: sum(number for (of, _), number in taken.items() if of == kind) for kind in (PUT, GET, DELETE)}
    assert kinds == {PUT: 5, GET: 4, DELETE: 1}
    assert not store.taken()


def test_a_long_listing_is_a_request_for_each_thousand(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.mkdir()
    store = CountedStore(inner=open_folder(tmp_path / "store"), folder=counts)
    store.prepare()
    for number in range(1_001):
        (tmp_path / "store" / f"{number:04d}").write_bytes(b"")

    assert len(list(store.list(""))) == 1_001
    assert store.taken() == {(PUT, "run"): 2}


def test_a_copy_in_another_process_counts_into_the_same_place(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.mkdir()
    store = CountedStore(inner=open_folder(tmp_path / "store"), folder=counts)
    store.prepare()

    pickle.loads(pickle.dumps(store)).put_if_absent("k", b"")

    assert store.taken() == {(PUT, "run"): 1}


@pytest.mark.parametrize(
    ("key", "of"),
    [
        ("backups/b/topics/t/partition=0/t+0-00000000000000000000-01234567.log", "segment"),
        ("backups/b/packs/0000000001-01234567.pack", "pack"),
        ("backups/b/commits/0000000001.json", "commit"),
        ("backups/b/catalog-parts/0000000001-01234567.parquet", "catalog"),
        ("clock", "run"),
        ("backups/b/backup.json", "run"),
    ],
)
def test_requests_are_told_apart_by_what_they_ask_for(key: str, of: str) -> None:
    assert what(key) == of
