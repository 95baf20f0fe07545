"""Schema ids, as a person sees them who restores with the command: the plan, the result, and exit code 3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import offsite
from offsite.cli.app import app
from offsite.cli.commands import restore
from offsite.library import Engine
from offsite.model.errors import BadOption, SchemasRefused
from offsite.model.options import SchemaIdsWay
from tests.fake_cluster.site import BACKUP, Site, open_site
from tests.framed_topics import framed, register_kinds, take_ids, write_records
from tests.inline_runner import InlineRunner
from tests.schema_registry import SchemaRegistryServer, serving

PARTIAL = 3


@pytest.fixture
def there() -> Iterator[SchemaRegistryServer]:
    with serving(SchemaRegistryServer()) as server:
        take_ids(server, 12)
        yield server


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """One topic of Avro, whose last value only looks as if it had an id."""
    monkeypatch.setattr(restore, "spark", _inline)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with open_site(tmp_path) as opened, serving(SchemaRegistryServer()) as registry:
        ids = register_kinds(registry)
        opened.source.make_topic("avro", retention_ms="-1")
        write_records(opened.source, "avro", [ids.record("avro", number, number) for number in range(4)])
        opened.source.write("avro", [framed(ids.by_subject["avro-value"], b"\xff")])
        opened.back_up("*", registry=registry.url)
        yield opened


class OwnRunner(InlineRunner):
    def refuse_strangers(self) -> None:
        """Its workers are this process."""


@contextmanager
def _inline(*_: object, **__: object) -> Iterator[InlineRunner]:
    yield OwnRunner()


def restored(site: Site, command: str, *more: str) -> Result:
    words = ["--repo", site.repository.store.url, "--backup", BACKUP, "--topics", "avro"]
    target = ["--bootstrap", str(site.target.config.bootstrap[0])]
    return CliRunner().invoke(app, ["restore", command, *words, *target, *more])


def test_the_plan_says_the_way_with_its_reason_and_the_first_ids(site: Site, there: SchemaRegistryServer) -> None:
    done = restored(site, "plan", "--registry", there.url)
    text = " ".join(done.output.split())
    assert (
        f"8 of 8 schema ids of the backup mean something else at {there.url}, or nothing: 1, 2, 3, 4, 5 and 3" in text
    )
    assert "ids in keys and values are rewritten: 8 ids are taken there: 1, 2, 3, 4, 5 and 3 more" in text
    seen = json.loads(restored(site, "plan", "--registry", there.url, "-o", "json").stdout)["schema_ids"]
    assert (seen["way"], seen["held"], seen["other"]) == ("rewrite", 8, [1, 2, 3, 4, 5, 6, 7, 8])
    assert seen["topics"] == [{"topic": "avro", "keys": [3], "values": [6], "is_proven": True}]


def test_what_was_left_ends_with_exit_code_3(site: Site, there: SchemaRegistryServer) -> None:
    done = restored(site, "run", "--registry", there.url, "--yes", "-o", "json")
    assert done.exit_code == PARTIAL, done.output
    result = json.loads(done.stdout)
    assert result["verified"] is True
    left = {"reason": "the schema does not decode the bytes", "partition": 0, "first_offset": 4, "fields": 1}
    assert result["schema_ids"] == {
        "way": "rewrite",
        "registry": there.url,
        "topics": {"avro": {"changed": 8, "left": [left]}},
    }


def test_the_proof_is_written_as_one_page_whatever_the_exit_code(
    site: Site, there: SchemaRegistryServer, tmp_path: Path
) -> None:
    file = tmp_path / "proof.html"
    done = restored(site, "run", "--registry", there.url, "--yes", "--report", str(file))
    assert done.exit_code == PARTIAL, done.output
    page = file.read_text()
    assert "Proven: 5 records were restored and read back" in page
    assert all(text in page for text in ("avro/0", "blake3:", "cluster target", "offsite 0."))
    assert file.stat().st_mode & 0o077 == 0, "it names topics and places"


def test_a_proof_that_cannot_be_written_is_refused_before_anything_is_restored(site: Site, tmp_path: Path) -> None:
    done = restored(site, "run", "--yes", "--report", str(tmp_path / "no" / "proof.html"))
    assert isinstance(done.exception, BadOption)
    assert not site.target.topics


def test_a_restore_that_leaves_nothing_ends_well(site: Site, there: SchemaRegistryServer) -> None:
    more = ("--before", "topic=avro,partition=0,offset=4", "--registry", there.url, "--yes")
    done = restored(site, "run", *more)
    assert done.exit_code == 0, done.output
    assert f"8 keys and values have a schema id of {there.url}" in " ".join(done.output.split())


def test_choices_that_cannot_be_carried_out_are_refused(site: Site, there: SchemaRegistryServer) -> None:
    assert isinstance(restored(site, "plan", "--schema-ids", "keep").exception, BadOption)
    kept = restored(site, "run", "--schema-ids", "keep", "--registry", there.url, "--yes").exception
    assert isinstance(kept, SchemasRefused)
    assert kept.exit_code == 14
    assert site.target.topics == {}


def test_python_restores_with_the_same_words(
    site: Site, there: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "runner", _inline)
    backup = offsite.open(site.repository.store.url).backup(BACKUP)
    target = str(site.target.config.bootstrap[0])
    plan = backup.plan_restore(bootstrap=target, topics=["avro"], registry=there.url, schema_ids="leave")
    assert plan.schema_ids.way is SchemaIdsWay.LEAVE
    result = backup.restore(bootstrap=target, topics=["avro"], registry=there.url)
    assert result.schema_ids is not None
    assert (result.schema_ids.way, result.schema_ids.changed, result.schema_ids.left) == (SchemaIdsWay.REWRITE, 8, 1)
