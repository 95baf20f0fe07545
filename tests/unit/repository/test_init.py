"""Where a repository may be made: not in another one, nor over backups that lost the object that makes them one."""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.model.errors import (
    DamagedObject,
    ObjectArchived,
    OffsiteError,
    RepositoryExists,
    RepositoryNotFound,
    StoreDenied,
    StoreUnreachable,
)
from offsite.overview.contents import list_backups
from offsite.overview.status import read_status
from offsite.repository.layout import ROOT_KEY
from offsite.repository.repository import Repository
from offsite.stores.cloud_client import store_error
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_store
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.stores.store import ObjectInfo, Store
from offsite.stores.wrapped_store import ClockFallbackStore
from tests.backups import SELECTION, run_once
from tests.faulty_store import FaultyStore
from tests.s3_servers import moto_server, new_s3_store


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture(params=["posix", "moto"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_folder(tmp_path / "r") if request.param == "posix" else new_s3_store(request.getfixturevalue("moto"))


def below(store: Store, name: str) -> Store:
    if isinstance(store, CloudStore):
        return replace(store, url=f"{store.url}/{name}")
    assert isinstance(store, PosixStore)
    return open_folder(store.root / name)


@pytest.mark.parametrize("name", ["x", "backups", "backups/a/b"])
def test_no_repository_is_made_in_another_one(store: Store, name: str) -> None:
    Repository.init(store)
    there = [info.key for info in store.list("")]
    with pytest.raises(RepositoryExists, match=r"is inside .* which is already a repository"):
        Repository.init(below(store, name))
    assert [info.key for info in store.list("")] == there


@pytest.mark.parametrize("name", ["x", "backups", "backups/a/b"])
def test_who_names_a_part_of_a_repository_is_told_which_one_that_is(store: Store, name: str) -> None:
    Repository.init(store)
    for named in (below(store, name), ClockFallbackStore(below(store, name))):
        with pytest.raises(RepositoryNotFound) as told:
            Repository.open(named)
        assert told.value.hint == f"it is inside repository {store.url}: use that address"


def test_no_repository_is_made_in_another_one_behind_a_link(tmp_path: Path) -> None:
    Repository.init(open_folder(tmp_path / "r"))
    (tmp_path / "r/backups").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "r/backups")
    for named in ("link", "link/x"):
        with pytest.raises(RepositoryExists, match=r"is inside .*/r, which is already a repository"):
            Repository.init(open_folder(tmp_path / named))


def test_a_repository_is_made_beside_another_one_and_where_nobody_may_look_above(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Repository.init(below(store, "one"))
    Repository.init(below(store, "two"))

    def denied(_: Store) -> Iterator[Store]:
        class Denied(FaultyStore):
            def head(self, key: str) -> None:
                raise StoreDenied(key)

        yield Denied(store)

    monkeypatch.setattr("offsite.repository.descriptor.places_above", denied)
    Repository.init(below(store, "three"))


def test_no_new_id_is_given_over_backups_that_lost_their_root_object(store: Store) -> None:
    repository = Repository.init(store)
    run_once(repository.create_backup("a", cluster_id="c", selection=SELECTION))
    root = store.get(ROOT_KEY)
    store.delete(ROOT_KEY)
    for command in (Repository.open, Repository.init):
        with pytest.raises(DamagedObject, match=r"offsite\.json is missing in .* there are backups") as told:
            command(store)
        assert "restore the object" in told.value.hint
    assert store.get(ROOT_KEY) is None
    assert root is not None
    store.put_if_absent(ROOT_KEY, root)
    assert Repository.open(store).backups() == ("a",)


def test_a_place_with_backups_of_others_is_no_lost_repository(store: Store) -> None:
    store.prepare()
    with pytest.raises(RepositoryNotFound):
        Repository.open(store)
    store.put_if_absent("backups/2026/dump.sql.gz", b"x")
    with pytest.raises(RepositoryNotFound):
        Repository.open(store)
    Repository.init(store)


def test_a_folder_that_is_not_there_is_no_lost_repository(tmp_path: Path) -> None:
    with pytest.raises(RepositoryNotFound):
        Repository.open(open_folder(tmp_path / "none"))


@pytest.mark.parametrize("place", ["folder", "memory"])
def test_init_says_that_it_lies_beside_objects_of_others(tmp_path: Path, place: str) -> None:
    url = str(tmp_path / "r") if place == "folder" else f"memory:///{uuid.uuid4()}"
    store = open_store(url)
    store.prepare()
    alone = f"{url}-alone"
    assert "beside" not in CliRunner().invoke(app, ["init", alone]).stdout
    for key in ("invoices/2026.pdf", "a.txt"):
        store.put_if_absent(key, b"x")
    done = CliRunner().invoke(app, ["init", url])
    assert done.exit_code == 0
    assert "note: other objects are at the same place (a.txt, invoices/2026.pdf)" in done.stdout


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EPERM, StoreDenied),
        (errno.EOPNOTSUPP, StoreUnreachable),
        (errno.ENOSYS, StoreUnreachable),
        (errno.EIO, StoreUnreachable),
    ],
)
def test_a_file_system_without_hard_links_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[OffsiteError]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(kind, match="cannot make the hard link") as told:
        Repository.init(open_folder(tmp_path / "r"))
    assert "hard links" in told.value.hint
    assert "the URL of the bucket" in told.value.hint


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, errno.ESTALE])
def test_other_errors_of_a_link_keep_their_hints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(OffsiteError) as told:
        Repository.init(open_folder(tmp_path / "r"))
    assert "hard links" not in told.value.hint


ARCHIVED = "status code: 403: <?xml version='1.0'?><Error><Code>InvalidObjectState</Code></Error>"


def test_an_object_in_an_archive_of_the_bucket_is_told_as_that() -> None:
    error = store_error("read", "s3://b/p/x", PermissionError(ARCHIVED))
    assert isinstance(error, ObjectArchived)
    assert error.message.startswith("cannot read s3://b/p/x: a rule of the bucket has moved it to an archive")
    assert "restore-object" in error.hint


def test_one_archived_commit_hides_no_other_backup(tmp_path: Path) -> None:
    class Archived(FaultyStore):
        def get(self, key: str) -> bytes | None:
            if key.startswith("backups/a/commits/"):
                raise ObjectArchived(f"cannot read {key}: a rule of the bucket has moved it to an archive")
            return super().get(key)

    repository = Repository.init(open_folder(tmp_path / "r"))
    for name in ("a", "b"):
        run_once(repository.create_backup(name, cluster_id="c", selection=SELECTION))
    listed = list_backups(replace(repository, store=Archived(repository.store))).backups
    assert [bool(each.problem) for each in listed] == [True, False]
    assert "has moved it to an archive" in listed[0].problem


def test_a_backup_that_one_may_not_read_hides_no_other(tmp_path: Path) -> None:
    class Denied(FaultyStore):
        def get(self, key: str) -> bytes | None:
            self.check(key)
            return super().get(key)

        def head(self, key: str) -> ObjectInfo | None:
            self.check(key)
            return super().head(key)

        def check(self, key: str) -> None:
            if key.startswith("backups/a/"):
                raise StoreDenied(f"cannot read {key}")

    repository = Repository.init(open_folder(tmp_path / "r"))
    for name in ("a", "b"):
        run_once(repository.create_backup(name, cluster_id="c", selection=SELECTION))
    denied = replace(repository, store=Denied(repository.store))
    assert [bool(each.problem) for each in list_backups(denied).backups] == [True, False]
    assert [each.safe for each in read_status(denied).backups] == [False, True]


def test_a_json_report_names_what_lies_beside(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    found: Any = json.loads(CliRunner().invoke(app, ["init", str(tmp_path), "-o", "json"]).stdout)
    assert found["beside"] == ["x"]
