"""Every command that changes nothing works where nothing can be written: in a folder on read-only media, and in a
bucket for which one may not put."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.cli.commands import export, records, verify
from offsite.jobs.ask import JobRequest, request_job
from offsite.model.errors import NoSuchRestorePoint, ResourceNotFound, StoreDenied
from offsite.repository.repository import Repository
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_store
from offsite.stores.posix_store import PosixStore
from offsite.stores.posix_writer import TemporaryFiles
from tests.fake_cluster.site import BACKUP, Site, open_site
from tests.inline_runner import InlineRunner
from tests.unit.cli.test_help import COMMANDS

ATTENTION = 3
LEAVES = {path.removeprefix("offsite ") for path, command in COMMANDS.items() if not hasattr(command, "commands")}
CHANGES = {
    *("demo", "init", "import", "serve", "backup run", "restore drill", "restore run", "checkpoint take"),
    *("checkpoint delete", "groups apply", "groups undo", "compact run", "collect run", "retention apply"),
    *("retention pin", "retention unpin", "generations run", "generations release", "archive reindex", "tokens add"),
    *("archive retention apply", "jobs cancel", "jobs forget", "metastore backup", "metastore restore"),
    *("operator run", "operator apply", "operator delete", "operator moved", "operator release", "operator agent"),
    *("operator expire", "spark pack", "spark job", "sandbox start", "sandbox stop", "backup follow"),
}
ELSEWHERE = {
    *("doctor", "metastore status", "metastore verify", "operator get", "operator describe", "sandbox status"),
    *("archive inspect", "notify test"),
}
"""Not about a repository, or (the doctor) meant to try whether it can be written."""

PLACE, SOURCE, TARGET, RESTORE = "{repo}", "{source}", "{target}", "{restore}"
JOB, ARCHIVE, OUT = "{job}", "{archive}", "{out}"
REPO = ("--repo", PLACE)
NAMED = (*REPO, "--backup", BACKUP)
LOOKS: Mapping[str, tuple[str, ...]] = {
    "list": REPO,
    "show": (BACKUP, *REPO),
    "status": REPO,
    "verify": NAMED,
    "verify --deep": NAMED,
    "verify --against": (SOURCE, *NAMED),
    "verify --restore": (RESTORE, "--against", TARGET, *NAMED),
    "cat": ("orders", *NAMED),
    "cat --at": ("1h-ago", "orders", *NAMED),
    "search": ("--value", "1", *NAMED),
    "export": (OUT, "--format", "jsonl", *NAMED),
    "export --at": ("1h-ago", OUT, "--format", "jsonl", "--dry-run", *NAMED),
    "backup plan": ("--bootstrap", SOURCE, *NAMED),
    "checkpoint list": NAMED,
    "checkpoint show": ("1", *NAMED),
    "checkpoint explain": ("1", *NAMED),
    "restore map": ("orders/0", "1", "--restore", RESTORE, *NAMED),
    "restore plan": ("--bootstrap", TARGET, "--rename", "orders=again", *NAMED),
    "restore plan --at": ("1h-ago", "--bootstrap", TARGET, "--rename", "orders=again", *NAMED),
    "groups show": NAMED,
    "groups plan": ("--bootstrap", SOURCE, *NAMED),
    "groups plan --restore": (RESTORE, "--bootstrap", TARGET, *NAMED),
    "compact plan": NAMED,
    "collect plan": NAMED,
    "collect plan --leftovers": NAMED,
    "retention plan": ("--keep-age", "1d", *NAMED),
    "retention pins": NAMED,
    "retention log": NAMED,
    "generations status": REPO,
    "jobs list": REPO,
    "operator members": ("shop-everywhere", *REPO),
    "jobs show": (JOB, *REPO),
    "archive retention plan": (ARCHIVE, "--format", "avro", "--keep-age", "1d"),
    "archive retention log": (ARCHIVE,),
}


def test_every_command_is_tried_here_or_changes_something() -> None:
    tried = {words.partition(" --")[0] for words in LOOKS}
    assert tried | CHANGES | ELSEWHERE == LEAVES
    assert not tried & (CHANGES | ELSEWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What the words in braces stand for, and what makes the place one that cannot be written."""

    words: Mapping[str, str]
    lock: Callable[[], None]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path) as opened:
        yield opened


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looked:
    for module in (export, records, verify):
        monkeypatch.setattr(module, "spark", _inline)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    repo = site.repository.store.url
    if request.param == "bucket":
        repo = f"memory:///{tmp_path.name}"
        site = replace(site, repository=Repository.init(open_store(repo)))
    site.source.make_topic("orders", **{"cleanup.policy": "compact"})
    for _ in range(2):
        site.source.write("orders", [b"1", b"2", b"3"])
        site.back_up("orders")
    restore = site.restore().restore
    asked = JobRequest(kind="verify", arguments=("verify",), backup=BACKUP, by="me")
    job = request_job(site.repository.store, asked)
    archive = str(tmp_path / "archive") if request.param == "folder" else f"{repo}-archive"
    made = CliRunner().invoke(app, ["export", archive, "--format", "avro", "--repo", repo, "--backup", BACKUP])
    assert made.exit_code == 0, made.output
    words = {
        PLACE: repo,
        SOURCE: str(site.source.config.bootstrap[0]),
        TARGET: str(site.target.config.bootstrap[0]),
        RESTORE: restore,
        JOB: job.id,
        ARCHIVE: archive,
        OUT: str(tmp_path / "out"),
    }
    return Looked(words=words, lock=lambda: _lock(request.param, monkeypatch, tmp_path / "out"))


def test_each_works_where_nothing_can_be_written(place: Looked) -> None:
    place.lock()
    failed = {}
    for command, more in LOOKS.items():
        done = CliRunner().invoke(app, [*command.split(), *(place.words.get(word, word) for word in more)])
        is_missing = isinstance(done.exception, (NoSuchRestorePoint, ResourceNotFound))
        if done.exit_code not in {0, ATTENTION} and not is_missing:
            failed[command] = repr(done.exception)
    assert not failed


@contextmanager
def _inline(*_: object, **__: object) -> Iterator[InlineRunner]:
    yield InlineRunner()


def _lock(kind: str, patched: pytest.MonkeyPatch, but: Path) -> None:
    """As the operating system and a bucket's policy deny it, everywhere but below `but`."""
    if kind == "bucket":
        for name in ("put_if_absent", "put_overwrite", "open_write", "delete"):
            patched.setattr(CloudStore, name, _denied)
        return
    for each in (TemporaryFiles, PosixStore):
        for name in {"create", "prepare", "_make_folder", "delete"} & vars(each).keys():
            patched.setattr(each, name, _unless_below(but, getattr(each, name)))


def _denied(*_: object, **__: object) -> NoReturn:
    raise StoreDenied("403: you may not put")


def _unless_below(but: Path, write: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(self: Any, *given: Any, **named: Any) -> Any:
        root = self.files.root if isinstance(self, TemporaryFiles) else self.root
        if not Path(root).is_relative_to(but):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return write(self, *given, **named)

    return refuse
