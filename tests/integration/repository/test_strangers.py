"""What others put into a repository, at every level and in every store, is passed over, and named once by status and
verify. Only a wrong object of ours, by its name, is damage."""

from __future__ import annotations

import json
import os
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.model.errors import DamagedCommit, DamagedObject, StoreDenied, StoreUnreachable, UnlistableName
from offsite.repository.checkpoint_records import CheckpointRecords
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import declared_uids, owner_of
from offsite.repository.generation_sets.ledger import SetLayout, set_names
from offsite.repository.job_records import list_jobs
from offsite.repository.layout import BackupLayout, is_own_key
from offsite.repository.lease import ProcessIdentity
from offsite.repository.leftovers import find_orphans, find_quiet_restores, find_unnamed_folders
from offsite.repository.removal import remove_backup
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.snapshots.audit_record import read_audit
from offsite.repository.snapshots.check_records import drill_keys, last_verify_record
from offsite.repository.snapshots.group_change import try_open_changes
from offsite.stores.numbered_log import Ledger, LedgerForm
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_store
from offsite.stores.posix_store import open_folder
from offsite.stores.store import Store
from offsite.upkeep.verification.run import check_records
from tests.backups import SELECTION, new_backup, run_once
from tests.s3_servers import ENVIRONMENT, moto_server

SEQ = f"{7:020}"
UID = "11111111-2222-3333"
JOB = "20261120-140000-0123abcd"
IN_BACKUP = (
    *("commits/", "catalog/", "catalog-parts/", "topics/", "topics/orders/", "topics/orders/partition=0/", "packs/"),
    *("groups/", "metadata/", "cuts/", "audit/", "checkpoints/", f"checkpoints/{SEQ}/", "checkpoint-taker/"),
    *("restores/", "restores/r/", "restores/r/lease/", "restores/r/attempts/orders/0/", "restores/r/maps/orders/"),
    *("drills/", "drills/d/", "verifies/", "verifies/quick/", "group-changes/", "group-changes/g/"),
)
LEVELS = (
    *("", "backups/", "backups/a/", *(f"backups/a/{level}" for level in IN_BACKUP), "backups/ghost/"),
    *("backups/ghost/commits/", "probes/", "jobs/", f"jobs/{JOB}/", f"jobs/{JOB}/ends/", f"jobs/{JOB}/worker/"),
    *("job-keys/", "declared/", f"declared/{UID}/", f"declared/{UID}/ledger/", f"declared/{UID}/lock/"),
    *(f"declared/{UID}/read/00000001/", "declared-names/", "declared-names/a/", "generations/", "generations/s/"),
    *("generations/s/ledger/", "generations/s/audit/", "operator/", "operator/slots/"),
)
OTHER_DIGITS = SEQ.translate({ord(digit): 0x660 + int(digit) for digit in "0123456789"})
NAMES = (
    *("Thumbs.db", ".DS_Store", "@eaDir/x", f"{SEQ}.json.bak", f"{SEQ} (copy).json", ".nfs000000000123"),
    *(f"{OTHER_DIGITS}.json", f"{OTHER_DIGITS}-0123abcd.pack", ""),
)
"""The last one: a marker, an object without bytes whose name ends in a slash."""

COMMANDS = (
    ("list",),
    ("show", "a"),
    ("verify", "--backup", "a", "--leftovers"),
    ("jobs", "list"),
    ("retention", "plan", "--backup", "a", "--keep-daily", "1"),
    ("collect", "plan", "--backup", "a"),
    ("cat", "orders", "--backup", "a", "--raw"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A store by its URL, and how somebody else puts an object there."""

    url: str
    put: Callable[[str], None]

    @property
    def store(self) -> Store:
        return open_store(self.url)


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture(params=["posix", "memory", "moto"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "posix":
        return Place(url=str(tmp_path / "r"), put=lambda key: put_file(tmp_path / "r", key))
    if request.param == "memory":
        url = f"memory:///{uuid.uuid4()}"
        return Place(url=url, put=lambda key: put_memory(url, key))
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    endpoint, bucket = request.getfixturevalue("moto"), f"test-{uuid.uuid4().hex[:12]}"
    put_http(f"{endpoint}/{bucket}")
    return Place(url=f"s3://{bucket}/p?endpoint={endpoint}", put=lambda key: put_http(f"{endpoint}/{bucket}/p/{key}"))


def put_file(root: Path, key: str) -> None:
    path = root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    if key.endswith("/") or not key:
        path.mkdir(exist_ok=True)
    else:
        path.write_bytes(b"x")


def put_memory(url: str, key: str) -> None:
    import obstore

    store = open_store(url)
    assert isinstance(store, CloudStore)
    if key:
        obstore.put(store._client, key, b"")


def put_http(url: str) -> None:
    request = urllib.request.Request(quote(url, safe=":/@"), data=b"", method="PUT")
    urllib.request.urlopen(request, timeout=30).close()


def run(url: str, *command: str) -> str:
    done = CliRunner().invoke(app, [*command, "--repo", url])
    assert done.exit_code == 0, (command, done.output)
    return done.stdout


def filled(store: Store) -> Repository:
    repository = Repository.init(store)
    backup = repository.create_backup("a", cluster_id="c", selection=SELECTION)
    for _ in range(3):
        run_once(backup)
    return repository


def put_strangers(place: Place) -> set[str]:
    """One of each name at each level: the keys, as a listing of the store tells them."""
    keys = {f"{level}{name}" for level in LEVELS for name in NAMES}
    for key in sorted(keys):
        place.put(key)
    listed = {info.key for info in place.store.list("")}
    return {key for key in listed if key and (key in keys or f"{key}/" in keys)}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", NAMES)
def test_no_name_of_others_is_ours(level: str, name: str) -> None:
    assert not is_own_key(f"{level}{name}")
    assert not is_own_key(f"{level}{name}".removesuffix("/"))


@pytest.mark.parametrize("partition", ["00", "01", OTHER_DIGITS[-1], "-1", "1 "])
def test_a_partition_is_a_plain_number(partition: str) -> None:
    key = f"backups/a/topics/orders/partition={{}}/orders+{{}}-{SEQ}-0123abcd.log"
    assert is_own_key(key.format(1, 1))
    assert not is_own_key(key.format(partition, partition))


@pytest.mark.parametrize("form", ["format-1", "format-1-digests", "format-2", "format-3"])
def test_every_name_that_a_version_gave_is_ours(form: str) -> None:
    root = Path(__file__).parents[2] / "golden" / form
    keys = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    keys = [key.removeprefix("repository/") for key in keys if "backups/" in key]
    assert keys
    assert [key for key in keys if not is_own_key(key)] == []


def test_commands_say_the_same_beside_them_and_two_name_them(place: Place) -> None:
    filled(place.store)
    before = [run(place.url, *command) for command in COMMANDS]
    strangers = put_strangers(place)
    assert len(strangers) > len(LEVELS) * (len(NAMES) - 2)
    for command, said in zip(COMMANDS, before, strict=True):
        now = [line for line in run(place.url, *command).splitlines() if "ignored, because offsite" not in line]
        assert now == said.splitlines(), command
    found = json.loads(run(place.url, "verify", "--backup", "a", "-o", "json"))
    assert sorted(found["strangers"]) == sorted(strangers), "each once"
    status = json.loads(run(place.url, "status", "-o", "json"))
    assert [each["backup"] for each in status["backups"]] == ["a"]
    (around,), inside = (
        status["notes"],
        [note for note in status["backups"][0]["notes"] if "ignored, because offsite" in note],
    )
    assert len(inside) == 1
    for text in (around, inside[0]):
        assert text.startswith("ignored, because offsite never uses such names: ")
        assert text.endswith("; delete what nobody needs")
    shown = run(place.url, "status") + run(place.url, "verify", "--backup", "a")
    assert shown.count("ignored, because offsite") == 3


def test_readers_and_writers_of_records_go_on_beside_them(place: Place) -> None:
    store = place.store
    repository = filled(store)
    strangers = put_strangers(place)
    backup = repository.backup("a")
    layout, now_ms = backup.layout, store.now_ms()
    run_once(backup)
    assert backup.state().seq == 4
    assert (repository.backups(), find_orphans(backup), find_quiet_restores(backup)) == (("a",), (), ())
    assert find_unnamed_folders(repository) == ()
    assert (check_records(backup).damaged, list(read_audit(store, layout))) == ((), [])
    assert (drill_keys(store, layout), list(try_open_changes(store, layout))) == ([], [])
    assert last_verify_record(store, layout, "quick", now_ms=now_ms) is None
    assert CheckpointRecords(store=store, layout=layout).events() == {}
    assert (list_jobs(store, most=9, now_ms=now_ms), declared_uids(store), set_names(store)) == ((), (), ())
    assert owner_of(store, "a") is None
    for lease in (
        RestoreLayout(backup=layout, restore="r").lease(store),
        CheckpointRecords(store=store, layout=layout).lease,
        DeclaredLayout(uid=UID).lock(store),
    ):
        assert lease.newest() is None
    remove_backup(store, layout, is_read=lambda: False, announce=lambda _: None)
    left = {info.key for info in store.list("")}
    assert left >= strangers, "nobody deletes what others put there"
    assert [key for key in left if key.startswith(layout.prefix) and is_own_key(key)] == [layout.removed_key]
    assert repository.backups() == ()


def test_a_folder_of_others_that_nobody_may_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = filled(open_folder(tmp_path / "r"))
    scan, refused = os.scandir, {"lost+found", "@eaDir", ".Trash-1000", ".Spotlight-V100"}
    for level in ("", "backups/", "backups/a/commits/"):
        for name in refused:
            (tmp_path / "r" / level / name).mkdir()

    def scandir(folder: Path) -> object:
        if Path(folder).name in refused:
            raise PermissionError(13, "Permission denied", str(folder))
        return scan(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert repository.backup("a").state().seq == 3
    for command in COMMANDS:
        run(str(tmp_path / "r"), *command)
    (tmp_path / "r/backups/a/topics/.hidden").mkdir()
    for ours in (".hidden", "commits"):
        refused.add(ours)
        with pytest.raises(StoreDenied):
            list(repository.store.list("backups/a/"))
        refused.remove(ours)


def test_a_marker_with_the_name_of_an_object_of_ours_hides_nothing(place: Place) -> None:
    """The client tells it by that name, without the slash: two commits 2, of which the second cannot follow."""
    if not place.url.startswith("s3:"):
        pytest.skip("no other store has such objects")
    filled(place.store)
    before = [run(place.url, *command) for command in COMMANDS]
    keys = [info.key for info in place.store.list("")]
    for key in keys:
        place.put(f"{key}/")
        place.put(f"{key}-other")
    for command, said in zip(COMMANDS, before, strict=True):
        now = [line for line in run(place.url, *command).splitlines() if "ignored, because offsite" not in line]
        assert now == said.splitlines(), command
    for after in ("", *keys):
        listed = [info.key for info in place.store.list("", start_after=after) if not info.key.endswith("-other")]
        assert listed == [key for key in keys if key > after]


FOLDERS = (
    *("jobs", "job-keys", "declared", "declared-names", "generations", "operator"),
    *(f"backups/a/{name}" for name in ("catalog-parts", "packs", "groups", "metadata", "cuts", "audit", "checkpoints")),
    *(f"backups/a/{name}" for name in ("checkpoint-taker", "restores", "drills", "group-changes")),
)


def test_a_file_of_others_with_the_name_of_a_folder_is_one_more(tmp_path: Path) -> None:
    url = str(tmp_path / "r")
    filled(open_folder(tmp_path / "r"))
    before = [run(url, *command) for command in COMMANDS]
    for key in FOLDERS:
        put_file(tmp_path / "r", key)
    for command, said in zip(COMMANDS, before, strict=True):
        assert [
            line for line in run(url, *command).splitlines() if "ignored, because offsite" not in line
        ] == said.splitlines()
    assert sorted(json.loads(run(url, "verify", "--backup", "a", "-o", "json"))["strangers"]) == sorted(FOLDERS)
    with pytest.raises(StoreUnreachable, match="Not a directory") as raised:
        open_folder(tmp_path / "r").put_if_absent("jobs/x", b"x")
    assert raised.value.hint.startswith("there is a file in the place of a folder")


@pytest.mark.parametrize("kind", ["gone", "folder", "link", "folder with a file", "last is a folder"])
def test_a_commit_that_is_gone_or_something_else_is_damage_beside_them(tmp_path: Path, kind: str) -> None:
    store = open_folder(tmp_path / "r")
    backup = new_backup(store)
    for _ in range(3):
        run_once(backup)
    (store.root / backup.layout.commits_prefix / "Thumbs.db").write_bytes(b"x")
    path = store.root / backup.layout.commit_key(3 if kind.startswith("last") else 2)
    path.unlink()
    if "folder" in kind:
        path.mkdir()
    if kind == "folder with a file":
        (path / "x").write_bytes(b"x")
    if kind == "link":
        path.symlink_to(store.root / backup.layout.commit_key(1))
    with pytest.raises(DamagedCommit):
        list(backup.log.read(after=0))


def test_a_gap_of_a_ledger_is_seen_behind_a_file_of_others(tmp_path: Path) -> None:
    store = open_folder(tmp_path / "r")
    store.prepare()
    log = Ledger(store=store, prefix="l/", form=COUNTING, first=Counted(seq=0))
    for seq in (1, 3):
        store.put_if_absent(log.key(seq), b"x")
    store.put_if_absent("l/00000000000000000001.json.bak", b"x")
    with pytest.raises(DamagedObject, match="is missing"):
        log.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    seq: int


COUNTING: LedgerForm[bytes, Counted] = LedgerForm(
    encode=lambda data: data, decode=lambda data, _: data, apply=lambda state, _entry, _head: Counted(seq=state.seq + 1)
)


def test_the_names_of_a_set_are_those_of_its_layout() -> None:
    layout = SetLayout(name="s")
    keys = (
        f"{layout.ledger_prefix}{1:020d}.json",
        layout.audit_key(1, "0123abcd"),
        layout.kept_key,
        BackupLayout(backup="s").hint_key,
    )
    assert all(map(is_own_key, keys))


def test_who_holds_a_lease_is_ours_by_name(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    lease = RestoreLayout(backup=BackupLayout(backup="b"), restore="r").lease(store)
    assert all(is_own_key(lease.key(term, "claim")) for term in (1, 99_999_999, 100_000_000))
    assert ProcessIdentity.current()


@pytest.mark.parametrize("name", ["b//c", "./c", "b/../c"])
@pytest.mark.parametrize("level", ["backups/", "backups/a/commits/"])
def test_a_name_past_which_nobody_can_list_is_told_with_the_way_to_delete_it(
    moto: str, monkeypatch: pytest.MonkeyPatch, level: str, name: str
) -> None:
    boto3 = import_module("boto3")  # which moto brings along: urllib and our own client send no such names
    for word, value in ENVIRONMENT.items():
        monkeypatch.setenv(word, value)
    bucket, key = f"test-{uuid.uuid4().hex[:12]}", f"p/{level}{name}"
    client = boto3.client("s3", endpoint_url=moto, region_name="us-east-1")
    client.create_bucket(Bucket=bucket)
    url = f"s3://{bucket}/p?endpoint={moto}"
    filled(open_store(url))
    client.put_object(Bucket=bucket, Key=key, Body=b"x")
    ended = {" ".join(words): CliRunner().invoke(app, [*words, "--repo", url]) for words in (*COMMANDS, ("status",))}
    for command, done in ended.items():
        error = done.exception
        assert done.exit_code == 0 or isinstance(error, UnlistableName), (command, error)
        if isinstance(error, UnlistableName):
            assert repr(key) in error.message, command
            assert f"aws s3api delete-object --bucket {bucket} --key {key};" in error.hint, command
    assert isinstance(ended["list"].exception, UnlistableName) or "OFF-1606" in ended["list"].output
    client.delete_object(Bucket=bucket, Key=key)
    assert run(url, "list")
