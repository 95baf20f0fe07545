from __future__ import annotations

from pathlib import Path
from unittest import mock

from offsite.model.units import MIB
from offsite.stores.object_store import CloudStore
from offsite.stores.posix_store import open_folder
from offsite.stores.posix_writer import PosixWriter
from offsite.stores.store import PutResult, Store
from offsite.stores.wrapped_store import LEAST_OBJECT_BYTES, PacedStore, object_bytes

MOST = 128 * MIB


class Purse:
    """Pays at once, and writes down how much was written by then."""

    portion_bytes = 1000

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, size_bytes: int) -> None:
        self.paid.append(size_bytes)


def folder(tmp_path: Path) -> Store:
    store = open_folder(tmp_path / "repository")
    store.prepare()
    return store


def test_a_file_is_paid_for_in_portions_each_before_it_is_written(tmp_path: Path) -> None:
    purse, written = Purse(), []
    inner, data = folder(tmp_path), bytes(range(256)) * 10

    def write(self: PosixWriter, data: memoryview) -> None:
        assert sum(purse.paid) == sum(written) + len(data)
        written.append(len(data))
        plain_write(self, data)

    plain_write = PosixWriter.write
    writer = PacedStore(inner, purse).open_write("a/b")
    with mock.patch.object(PosixWriter, "write", write):
        writer.write(data)
    assert writer.close() is PutResult.CREATED
    assert (purse.paid, inner.get("a/b")) == ([1000, 1000, 560], data)


def test_an_object_that_is_sent_as_a_whole_is_paid_for_right_before() -> None:
    purse, inner = Purse(), CloudStore(url="memory:///paced")
    writer = PacedStore(inner, purse).open_write("a/b")
    for _ in range(3):
        writer.write(b"x" * 1500)
    assert purse.paid == []
    assert writer.close() is PutResult.CREATED
    assert (purse.paid, inner.get("a/b")) == ([4500], b"x" * 4500)


def test_what_is_given_up_was_not_paid_for() -> None:
    purse = Purse()
    writer = PacedStore(CloudStore(url="memory:///given-up"), purse).open_write("a/b")
    writer.write(b"x")
    writer.abort()
    assert purse.paid == []


def test_a_put_is_paid_for_too(tmp_path: Path) -> None:
    purse = Purse()
    assert PacedStore(folder(tmp_path), purse).put_if_absent("a", [b"12", b"345"]) is PutResult.CREATED
    PacedStore(folder(tmp_path), purse).put_if_absent("b", b"123")
    assert purse.paid == [5, 3]


def test_only_objects_that_are_sent_as_a_whole_become_smaller_and_none_tiny(tmp_path: Path) -> None:
    cloud = CloudStore(url="memory:///sizes")
    assert object_bytes(folder(tmp_path), 1_000_000, most=MOST) == MOST
    assert object_bytes(cloud, 1_000_000, most=MOST) == LEAST_OBJECT_BYTES
    assert object_bytes(cloud, 100_000_000, most=MOST) == 25_000_000
    assert object_bytes(cloud, 10_000_000_000, most=MOST) == MOST
