"""One suite for all places of archives: what `Files` promises, tried on a folder, in memory and on S3."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import NotSupportedError

from offsite.model.errors import Damaged, OverwritingStore
from offsite.model.secret import SecretHandling, handle_secrets
from offsite.stores.archive_files import LAST_MESSAGE_MS, ArchiveBucket, ArchiveFolder
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_archive_files
from tests.s3_servers import moto_server, new_s3_store

AnyFiles = ArchiveFolder | ArchiveBucket


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture(params=["folder", "memory", "moto"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> AnyFiles:
    makers: dict[str, Callable[[], AnyFiles]] = {
        "folder": lambda: open_archive_files(str(tmp_path / "archive")),
        "memory": lambda: ArchiveBucket(store=CloudStore(url=f"memory:///{uuid.uuid4()}")),
        "moto": lambda: ArchiveBucket(store=new_s3_store(request.getfixturevalue("moto"))),
    }
    return makers[request.param]()


def test_what_is_put_can_be_got_whole_and_in_ranges(files: AnyFiles) -> None:
    files.put("a/b.data", b"content")
    assert files.get("a/b.data") == b"content"
    assert files.get_range("a/b.data", 3, 100) == b"tent"
    assert files.get_range("a/b.data", 7, 1) == b""


def test_what_is_too_large_to_be_read_whole_is_named(files: AnyFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsite.stores.store.MAX_OBJECT_BYTES", 9)
    files.put("large", b"ten  bytes")
    with pytest.raises(Damaged, match="large has 10 bytes"):
        files.get("large")
    assert files.get_range("large", 0, 3) == b"ten"


def test_what_is_not_there_is_none_and_an_empty_place_lists_nothing(files: AnyFiles) -> None:
    assert list(files.list()) == []
    assert (files.get("a"), files.get_range("a", 0, 1)) == (None, None)
    files.delete("a")


def test_a_second_put_replaces(files: AnyFiles) -> None:
    files.put("k", b"first and longer")
    files.put("k", b"second")
    assert files.get("k") == b"second"


def test_files_are_listed_in_order_below_a_prefix_with_their_sizes(files: AnyFiles) -> None:
    for key in ("b/2", "b/1", "a", "b/sub/3"):
        files.put(key, b"x" * len(key))
    assert [info.key for info in files.list()] == ["a", "b/1", "b/2", "b/sub/3"]
    assert [(info.key, info.size_bytes) for info in files.list("b/")] == [("b/1", 3), ("b/2", 3), ("b/sub/3", 7)]


def test_a_deleted_file_is_gone(files: AnyFiles) -> None:
    files.put("k", b"x")
    files.delete("k")
    assert files.get("k") is None
    assert list(files.list()) == []


def test_any_buffer_can_be_put(files: AnyFiles) -> None:
    for number, data in enumerate((bytearray(b"x"), memoryview(b"axb")[1:2], memoryview(b"x").cast("b"))):
        files.put(f"k/{number}", data)
        assert files.get(f"k/{number}") == b"x"


def test_an_empty_file_is_a_file(files: AnyFiles) -> None:
    files.put("empty", b"")
    assert files.get("empty") == b""


def test_the_time_of_the_last_message_goes_with_the_file(files: AnyFiles) -> None:
    files.put("k", b"x", last_message_ms=1_600_000_000_123)
    if isinstance(files, ArchiveFolder):
        assert (files.root / "k").stat().st_mtime_ns // 1_000_000 == 1_600_000_000_123
    else:
        found = obstore.get(files.store._client, "k", options={"head": True}).attributes
        assert found[LAST_MESSAGE_MS] == "1600000000123"


def test_every_place_can_be_pickled_and_does_not_show_its_secrets(files: AnyFiles) -> None:
    files.put("k", b"x")
    with handle_secrets(SecretHandling.SENT):
        assert pickle.loads(pickle.dumps(files)).url == files.url
    assert "test-secret" not in repr(files)


def test_a_folder_appends_and_cuts(tmp_path: Path) -> None:
    files = ArchiveFolder(root=tmp_path / "new")
    files.append("t/log", b"one")
    files.append("t/log", b"two")
    files.truncate("t/log", 4)
    assert files.get("t/log") == b"onet"


def test_names_that_no_archive_can_have_are_left_out(files: AnyFiles, tmp_path: Path) -> None:
    if isinstance(files, ArchiveFolder):
        files.root.mkdir()
        (files.root / "k~offsite").write_bytes(b"left behind by a crash")
    files.put("k", b"x")
    assert [info.key for info in files.list()] == ["k"]


def test_every_place_says_what_it_can_do(files: AnyFiles) -> None:
    is_folder = isinstance(files, ArchiveFolder)
    assert (files.appendable is not None) is is_folder
    assert files.has_lock is is_folder
    with files.exclusive():
        files.put("k", b"x")


def test_a_file_is_replaced_only_while_it_is_what_was_read(files: AnyFiles) -> None:
    files.put("k", b"first")
    with files.exclusive():
        assert not files.replace("k", b"another", b"second")
        assert files.get("k") == b"first"
        assert files.replace("k", b"first", b"second")
        assert files.get("k") == b"second"
        assert not files.replace("k", b"first", b"third")
        assert not files.replace("missing", b"first", b"third")
    assert [info.key for info in files.list() if info.key != "clock"] == ["k"]


def test_a_write_between_reading_and_replacing_is_not_lost(files: AnyFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(files, ArchiveFolder):
        pytest.skip("its lock keeps others out")
    files.put("k", b"first")
    put = obstore.put

    def put_later(client: object, key: str, data: object, **options: object) -> object:
        if key == "k":
            put(client, key, b"another's", use_multipart=False)  # type: ignore[call-overload]
        return put(client, key, data, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(obstore, "put", put_later)
    assert not files.replace("k", b"first", b"second")
    assert files.get("k") == b"another's"


def test_a_store_that_ignores_the_condition_is_refused(files: AnyFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(files, ArchiveFolder):
        pytest.skip("its lock keeps others out")
    files.put("k", b"first")
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda *given, **options: put(*given, use_multipart=False))  # noqa: ARG005
    with pytest.raises(OverwritingStore, match="ignores or does not support conditional puts"):
        files.replace("k", b"first", b"second")
    assert files.get("k") == b"first"
    assert [info.key for info in files.list()] == ["k"], "nothing of the question stays"


def test_a_store_that_does_not_know_the_condition_is_refused(files: AnyFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(files, ArchiveFolder):
        pytest.skip("its lock keeps others out")
    files.put("k", b"first")
    put = obstore.put

    def put_without(*given: object, mode: object = None, **options: object) -> object:
        if isinstance(mode, dict):
            raise NotSupportedError("Operation not supported: no conditional put")
        return put(*given, **({"mode": mode} if mode else {}), **options)  # type: ignore[call-overload]

    monkeypatch.setattr(obstore, "put", put_without)
    for _ in range(2):
        with pytest.raises(OverwritingStore, match="ignores or does not support conditional puts"):
            files.replace("k", b"first", b"second")
    assert files.get("k") == b"first"


def test_the_time_of_the_last_message_is_read_where_it_is_kept(files: AnyFiles) -> None:
    files.put("k", b"x", last_message_ms=1_600_000_000_123)
    files.put("none", b"x")
    is_kept = isinstance(files, ArchiveBucket)
    assert files.last_message_ms("k") == (1_600_000_000_123 if is_kept else None)
    assert (files.last_message_ms("none"), files.last_message_ms("missing")) == (None, None)


def test_the_clock_of_the_place_leaves_nothing_behind(files: AnyFiles) -> None:
    now_ms = files.now_ms()
    assert abs(now_ms - time.time() * 1000) < 10_000
    assert list(files.list()) == []
