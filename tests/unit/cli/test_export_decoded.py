"""`offsite export --decode`: the schemas of the backup explain what is written as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner, Result

from offsite.cli.app import app
from offsite.cli.commands import export as command
from offsite.model.errors import BadOption
from tests.fake_cluster.site import BACKUP, Site
from tests.framed_topics import KINDS, FramedIds, framed, payload, register_kinds
from tests.inline_runner import InlineRunner
from tests.schema_registry import SchemaRegistryServer, serving


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with serving(SchemaRegistryServer()) as server:
        yield server


@pytest.fixture(autouse=True)
def _inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "spark", lambda *_, **__: mock.MagicMock(__enter__=lambda _: InlineRunner()))


def write(site: Site, ids: FramedIds) -> None:
    for kind in KINDS:
        site.source.make_topic(kind)
        key, value = (framed(ids.by_subject[f"{kind}-{column}"], payload(kind, 3)) for column in ("key", "value"))
        site.source.write(kind, [value], key=key)


def export(site: Site, place: Path, *words: str, source: tuple[str, ...] = ("--backup", BACKUP)) -> Result:
    repo = ["--repo", site.repository.store.url] if "--backup" in source else []
    return CliRunner().invoke(app, ["export", str(place), *repo, *source, "--decode", "-o", "json", *words])


def test_every_kind_is_decoded_beside_its_bytes(site: Site, registry: SchemaRegistryServer, tmp_path: Path) -> None:
    write(site, register_kinds(registry))
    site.back_up("*", registry=registry.url)
    done = export(site, tmp_path / "out", "--format", "jsonl")
    assert done.exit_code == 0, done.output
    for kind in KINDS:
        (file,) = (tmp_path / "out" / "topics" / kind).rglob("*.jsonl")
        (line,) = map(json.loads, file.read_text("utf-8").splitlines())
        for column in ("Key", "Value"):
            decoded = line[f"decoded{column}"]
            assert decoded["encoding"].startswith(kind)
            assert decoded["schema"]["subject"] == f"{kind}-{column.lower()}"
            assert decoded["data"]


def test_where_it_can_do_nothing_it_is_refused(site: Site, registry: SchemaRegistryServer, tmp_path: Path) -> None:
    write(site, register_kinds(registry))
    site.back_up("*")
    reasons = {
        "holds no schemas to decode by": export(site, tmp_path / "a", "--format", "jsonl"),
        "--decode cannot be used with avro archives": export(site, tmp_path / "b", "--format", "avro"),
        "reads the schemas once": export(site, tmp_path / "c", "--format", "jsonl", "--follow"),
        "works by the schemas of a backup": export(
            site, tmp_path / "d", "--format", "jsonl", source=("--from", "kafka", "--bootstrap", "127.0.0.1:1")
        ),
    }
    for reason, done in reasons.items():
        assert isinstance(done.exception, BadOption), done.output
        assert reason in done.exception.message
    assert not list(tmp_path.glob("[abcd]/*"))
