"""One suite for all stores: what `Store` promises, tried on every adapter."""

from __future__ import annotations

import pickle
import threading
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from offsite.model.errors import Bug, DamagedObject, ObjectArchived
from offsite.model.secret import SecretHandling, handle_secrets
from offsite.model.units import MIB
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_store
from offsite.stores.posix_store import PosixStore
from offsite.stores.store import ObjectInfo, PutResult, Store
from tests.s3_servers import moto_server, new_s3_store, s3proxy_server

RACERS = 16


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def s3proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3proxy_server(tmp_path_factory.mktemp("s3proxy")) as endpoint:
        yield endpoint


@pytest.fixture(params=["posix", "memory", "moto", "s3proxy"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    makers: dict[str, Callable[[], Store]] = {
        "posix": lambda: open_store(str(tmp_path / "repository")),
        "memory": lambda: CloudStore(url=f"memory:///{uuid.uuid4()}"),
        "moto": lambda: new_s3_store(request.getfixturevalue("moto")),
        "s3proxy": lambda: new_s3_store(request.getfixturevalue("s3proxy")),
    }
    made = makers[request.param]()
    made.prepare()
    return made


def keys(store: Store, prefix: str = "", start_after: str = "") -> list[str]:
    return [info.key for info in store.list(prefix, start_after=start_after)]


def test_what_is_put_can_be_got(store: Store) -> None:
    assert store.put_if_absent("a/b", b"content") is PutResult.CREATED
    assert store.get("a/b") == b"content"
    found = store.head("a/b")
    assert found is not None
    assert (found.key, found.size_bytes) == ("a/b", 7)
    assert abs(found.modified_ms - store.now_ms()) < 60_000


def test_an_object_may_come_in_parts_or_be_empty(store: Store) -> None:
    assert store.put_if_absent("parts", [b"one", memoryview(b"two"), bytearray(b"three")]) is PutResult.CREATED
    assert store.put_if_absent("empty", b"") is PutResult.CREATED
    assert (store.get("parts"), store.get("empty")) == (b"onetwothree", b"")


def test_what_is_not_there_is_none(store: Store) -> None:
    store.put_if_absent("a/b", b"")
    for key in ("nothing", "a/nothing", "a/b/c"):
        assert (store.get(key), store.get_range(key, 0, 1), store.head(key)) == (None, None, None)


def test_what_is_larger_than_anything_of_ours_is_not_taken_into_memory(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsite.stores.store.MAX_OBJECT_BYTES", 9)
    store.put_if_absent("k", b"nine byte")
    store.put_if_absent("l", b"ten  bytes")
    assert store.get("k") == b"nine byte"
    with pytest.raises(DamagedObject, match="l has 10 bytes") as caught:
        store.get("l")
    assert caught.value.hint
    assert store.get_range("l", 0, 3) == b"ten"


def test_a_second_put_never_overwrites(store: Store) -> None:
    store.put_if_absent("k", b"first")
    assert store.put_if_absent("k", b"other") is PutResult.OTHER
    assert store.put_if_absent("k", b"first") is PutResult.SAME
    writer = store.open_write("k")
    writer.write(b"third")
    assert writer.close() is PutResult.OTHER
    assert store.get("k") == b"first"


def test_of_sixteen_racing_writers_exactly_one_wins(store: Store) -> None:
    for number in range(5):
        start = threading.Barrier(RACERS)

        def race(racer: int, key: str = f"commits/{number}", start: threading.Barrier = start) -> PutResult:
            start.wait()
            return store.put_if_absent(key, b"writer %d" % racer)

        with ThreadPoolExecutor(RACERS) as pool:
            results = list(pool.map(race, range(RACERS)))
        assert Counter(results) == {PutResult.CREATED: 1, PutResult.OTHER: RACERS - 1}
        assert store.get(f"commits/{number}") == b"writer %d" % results.index(PutResult.CREATED)


def test_a_large_object_is_streamed_and_read_in_ranges(store: Store) -> None:
    part = bytes(range(256)) * (MIB // 256)
    writer = store.open_write("large")
    buffer = bytearray(part)
    for _ in range(70):
        writer.write(memoryview(buffer))
    buffer[:] = bytes(MIB)  # the buffer is ours again
    assert keys(store) == []
    assert writer.close() is PutResult.CREATED
    found = store.head("large")
    assert found is not None
    assert found.size_bytes == 70 * MIB
    assert store.get_range("large", 69 * MIB, 5 * MIB) == part
    assert store.get_range("large", 33 * MIB + 7, 100) == part[7:107]
    assert store.get_range("large", 70 * MIB, 100) == b""


def test_an_aborted_write_leaves_nothing(store: Store) -> None:
    writer = store.open_write("k")
    writer.write(b"content")
    writer.abort()
    assert keys(store) == []
    assert store.put_if_absent("k", b"other") is PutResult.CREATED


def test_hints_can_be_replaced(store: Store) -> None:
    store.put_overwrite("hint", b"one")
    store.put_overwrite("hint", b"two")
    assert store.get("hint") == b"two"


def test_listing_is_complete_ordered_and_can_begin_anywhere(store: Store) -> None:
    made = ["a/1", "a/10", "a/2", "a-b/1", "a.b", "b/x/y/1", "b/x/y/2", "b/x0", "z"]
    for key in reversed(made):
        store.put_if_absent(key, b"")
    assert keys(store) == sorted(made)
    assert keys(store, "a/") == ["a/1", "a/10", "a/2"]
    assert keys(store, "b/x/") == ["b/x/y/1", "b/x/y/2"]
    assert keys(store, "nothing/") == []
    for start in (*made, "b/x/y", "b/", "a/0", "0", "zz"):
        assert keys(store, "", start) == [key for key in sorted(made) if key > start]
    assert keys(store, "a/", "a/1") == ["a/10", "a/2"]


@pytest.mark.slow
def test_listing_goes_past_a_page(store: Store) -> None:
    made = [f"commits/{number:020}.json" for number in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put_if_absent(key, b"x"), made))
    assert keys(store, "commits/") == made
    assert keys(store, "commits/", made[1050]) == made[1051:]


def test_deleting_twice_is_deleting_once(store: Store) -> None:
    store.put_if_absent("a/k", b"")
    store.delete("a/k")
    store.delete("a/k")
    assert keys(store) == []


def test_the_clock_does_not_run_backwards(store: Store) -> None:
    store.put_if_absent("before", b"")
    times = [store.now_ms() for _ in range(3)]
    before = store.head("before")
    assert before is not None
    assert [before.modified_ms // 1000, *[t // 1000 for t in times]] == sorted(
        [before.modified_ms // 1000, *[t // 1000 for t in times]]
    )


def test_the_clock_is_asked_again_if_somebody_else_has_taken_the_object_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an archive's users do, who leave nothing of ours in it."""
    store, head, looks = CloudStore(url=f"memory:///{uuid.uuid4()}"), CloudStore.head, list[str]()

    def late(self: CloudStore, key: str) -> ObjectInfo | None:
        looks.append(key)
        if len(looks) < 3:
            self.delete(key)
        return head(self, key)

    monkeypatch.setattr(CloudStore, "head", late)
    assert store.now_ms() > 0
    assert len(looks) == 3


def test_a_pickled_store_opens_the_same_place(store: Store) -> None:
    store.put_if_absent("k", b"content")
    with handle_secrets(SecretHandling.SENT):
        again: Store = pickle.loads(pickle.dumps(store))
    assert again.get("k") == b"content"
    assert again.url == store.url


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../../b", "a/.", "~tmp/x", "a/b~", "a\0b"])
def test_keys_that_could_leave_their_place_are_a_bug(store: Store, key: str) -> None:
    for attempt in (
        lambda: store.put_if_absent(key, b""),
        lambda: store.put_overwrite(key, b""),
        lambda: store.open_write(key),
        lambda: store.delete(key),
    ):
        with pytest.raises(Bug):
            attempt()
    for read in (lambda: store.get(key), lambda: store.get_range(key, 0, 1), lambda: store.head(key)):
        with pytest.raises(DamagedObject):  # another object may have named it
            read()


@pytest.mark.slow
def test_no_secret_is_shown(store: Store) -> None:
    assert "test-secret" not in repr(store) + store.url


@pytest.mark.slow
def test_unfinished_writes_can_be_swept_when_they_are_old(store: Store) -> None:
    writer = store.open_write("k")
    writer.write(b"content")
    now_ms = store.now_ms()
    assert store.sweep_unfinished(before_ms=now_ms - 60_000) == 0
    swept = store.sweep_unfinished(before_ms=now_ms + 60_000)
    assert swept == (1 if isinstance(store, PosixStore) else 0)
    assert keys(store) in ([], ["clock"])


@pytest.mark.slow
def test_a_byte_of_an_archived_object_is_refused_as_that(moto: str) -> None:
    """What a restore tries before it makes a topic."""
    store = new_s3_store(moto)
    bucket = store.url.removeprefix("s3://").split("/")[0]
    headers = {"x-amz-storage-class": "GLACIER"}
    put = urllib.request.Request(f"{moto}/{bucket}/some/prefix/a", data=b"content", method="PUT", headers=headers)
    urllib.request.urlopen(put, timeout=30).close()
    with pytest.raises(ObjectArchived):
        store.get_range("a", 0, 1)
