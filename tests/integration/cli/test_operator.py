"""`offsite operator`: what it shows, asks and refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from offsite.cli.app import app
from offsite.model.errors import (
    BadOption,
    BadResource,
    ConfirmationMissing,
    FolderCopied,
    ResourceImmutable,
    ResourceNotFound,
)
from offsite.repository.declared.entry import DeclaredEntryKind
from tests.backups import SELECTION, run_once
from tests.processes import is_alive, processes_with, wait_until
from tests.unit.operator.folder.home import Home, end_processes, opened_home, resource, restore
from tests.unit.operator.work.declared import Declared

MARK = "OFFSITE_TEST_RUN"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("OFFSITE_OPERATOR_DIR", str(tmp_path / "home"))
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


def offsite(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["operator", *arguments])


def answer(*arguments: str) -> Any:
    done = offsite(*arguments, "-o", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def file(home: Home, **spec: Any) -> str:
    return str(home.put("../given.yaml", resource(**spec)))


def test_a_resource_is_applied_looked_after_and_listed(home: Home) -> None:
    applied = answer("apply", "-f", file(home, agents={"replicas": 0}))
    assert applied == {
        "resources": [{"kind": "Backup", "name": "shop", "file": "backup-shop.yaml", "change": "created"}]
    }
    (before,) = answer("get")["resources"]
    assert before["message"] == "not processed yet: is an operator running?"
    look = answer("run", str(home.root), "--once", "--settle", "0s")
    assert (look["resources"], look["waiting"][0]["name"]) == (1, "shop")
    offsite("run", str(home.root), "--once", "--settle", "0s")

    (line,) = answer("get", "backups", "shop")["resources"]
    assert (line["state"], line["reconciled"], line["generation"]) == ("running", False, 1)
    assert "its spec has no agents" in line["message"]


def test_the_list_for_people_has_its_columns(home: Home) -> None:
    offsite("apply", "-f", file(home, agents={"replicas": 0}))
    shown = offsite("get").stdout

    for word in ("NAME", "STATE", "RECONCILED", "OLDEST DATA", "LATEST RESTORABLE", "AGE", "shop"):
        assert word in shown


def test_nothing_declared_says_how_to_begin(home: Home) -> None:
    assert "offsite operator apply" in offsite("get").stdout


def test_a_description_has_spec_conditions_backups_queue_and_locks(home: Home) -> None:
    offsite("apply", "-f", file(home, agents={"replicas": 1}, expiry={"maximumRetention": "30d"}))
    for _ in range(2):
        offsite("run", str(home.root), "--once", "--settle", "0s")
    found = answer("describe", "backup", "shop")

    assert found["spec"]["expiry"]["maximumRetention"] == "30d"
    assert "IncorrectBackupState" in {each["type"] for each in found["status"]["conditions"]}
    assert found["status"]["backups"][0]["phase"] == "running"
    assert found["queue"]["position"] == found["queue"]["of"] == 1
    assert ({each["what"] for each in found["locks"]} <= {"agent"}, found["problems"]) == (True, [])
    shown = offsite("describe", "backup", "shop").stdout
    assert "expiry queue: " in shown
    assert '"maximumRetention": "30d"' in shown


def test_what_is_wrong_is_refused_before_anything_is_written(home: Home) -> None:
    done = offsite("apply", "-f", file(home, stat="paused"))

    assert isinstance(done.exception, BadResource)
    assert done.exception.hint == "did you mean state?"
    assert not list(home.root.glob("backup-*"))


def test_a_field_that_may_not_change_is_exit_code_14(home: Home) -> None:
    offsite("apply", "-f", file(home))
    done = offsite("apply", "-f", file(home, cluster="other"))

    assert isinstance(done.exception, ResourceImmutable)
    assert done.exception.exit_code == 14


def test_standard_input_is_a_file(home: Home) -> None:
    done = CliRunner().invoke(app, ["operator", "apply", "-f", "-"], input=yaml.safe_dump(resource()))

    assert done.exit_code == 0
    assert (home.root / "backup-shop.yaml").exists()


def test_a_deletion_shows_what_goes_and_asks(home: Home) -> None:
    offsite("apply", "-f", file(home, agents={"replicas": 1}))
    for _ in range(2):
        offsite("run", str(home.root), "--once", "--settle", "0s")
    asked = offsite("delete", "backup", "shop")
    assert isinstance(asked.exception, ConfirmationMissing)
    assert "is DELETED" in asked.stderr
    assert (home.root / "backup-shop.yaml").exists()

    done = answer("delete", "backup", "shop", "--yes")
    assert done["files"] == ["backup-shop.yaml"]
    assert len(done["backups"]) == 1
    assert answer("describe", "backup", "shop")["deletion_asked"] is True


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (restore("back"), "written records are kept"),
        (resource("tick", "Schedule", backup="shop", action="drill", cron="0 3 * * *"), "no new run begins"),
    ],
)
def test_a_deletion_tells_what_ends_with_a_resource_of_that_kind(
    home: Home, document: dict[str, Any], said: str
) -> None:
    home.put("one.yaml", document)
    shown = offsite("delete", document["kind"].lower(), document["metadata"]["name"], "--yes").stdout

    assert said in " ".join(shown.split())
    assert "agents" not in shown


def test_a_folder_that_no_operator_looks_at_is_told_of(home: Home) -> None:
    home.put("one.yaml", resource(agents={"replicas": 0}))
    offsite("run", str(home.root), "--once", "--settle", "0s")
    (line,) = answer("get")["resources"]
    assert (line["silent"], 0 <= line["looked_s"] < 60) == (False, True)
    assert "no operator" not in offsite("get").stdout + offsite("describe", "backup", "shop").stdout

    path = home.root / "backup-shop.status.yaml"
    path.write_text(re.sub(r"lastLookTime: .*", "lastLookTime: '2026-01-01T00:00:00.000Z'", path.read_text()))
    (line,) = answer("get")["resources"]
    assert (line["silent"], line["looked_s"] > 86_400) == (True, True)
    for shown in (offsite("get").stdout, offsite("describe", "backup", "shop").stdout):
        assert "no operator has checked this for " in shown


def test_a_move_asks_before_it_is_confirmed(home: Home, tmp_path: Path) -> None:
    home.put("one.yaml", resource(agents={"replicas": 0}))
    offsite("run", str(home.root), "--once", "--settle", "0s")
    there = tmp_path / "there"
    shutil.copytree(home.root, there)
    shutil.rmtree(home.root)
    refused = offsite("run", str(there), "--once", "--settle", "0s")
    assert isinstance(refused.exception, FolderCopied)

    asked = offsite("moved", "--dir", str(there))
    assert isinstance(asked.exception, ConfirmationMissing)
    assert "continue in" in asked.stderr
    assert offsite("moved", "--dir", str(there), "--yes").exit_code == 0
    assert offsite("run", str(there), "--once", "--settle", "0s").exit_code == 0


def test_what_there_is_not_is_exit_code_10(home: Home) -> None:
    for command in (("get", "backup", "nothing"), ("describe", "backup", "nothing"), ("delete", "backup", "nothing")):
        done = offsite(*command)
        assert isinstance(done.exception, ResourceNotFound)
        assert done.exception.exit_code == 10


@pytest.mark.parametrize("arguments", [("get", "pods"), ("get", "--dir", "/nothing/at/all")])
def test_what_cannot_be_meant_is_an_error_with_a_hint(home: Home, arguments: tuple[str, ...]) -> None:
    done = offsite(*arguments)

    assert isinstance(done.exception, BadOption)
    assert done.exception.hint


def running(home: Home, *options: str) -> subprocess.Popen[bytes]:
    """An operator with the real agents, which have nothing to do. Its processes have a mark in their environment."""
    home.put("shop.yaml", resource(agents={"replicas": 1}, state="stopped"))
    command = [
        sys.executable,
        "-c",
        "from offsite.cli.main import main; main()",
        "operator",
        "run",
        str(home.root),
        "--settle",
        "0s",
    ]
    return subprocess.Popen(
        [*command, "--every", "200ms", "-o", "jsonl", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, MARK: str(home.root)},
    )


def agents(home: Home) -> list[int]:
    """Those that were noted: before that it is a shell that waits for a word."""
    found = processes_with(MARK, str(home.root))
    return [pid for pid, command in found.items() if "operator agent" in command and not command.startswith("/bin/sh")]


@pytest.fixture
def no_leftovers(home: Home) -> Iterator[None]:
    yield
    end_processes(MARK, str(home.root))


def test_one_look_does_not_take_agents_away_with_it(home: Home) -> None:
    home.put("shop.yaml", resource())
    refused = offsite("run", str(home.root), "--once", "--stop-agents")

    assert isinstance(refused.exception, BadOption)
    assert "--stop-agents" in refused.exception.message
    assert not agents(home)


@pytest.mark.usefixtures("no_leftovers")
def test_sigterm_ends_an_operator_and_its_agents_with_exit_code_0(home: Home) -> None:
    with running(home, "--stop-agents") as operator:
        assert operator.stdout is not None
        assert json.loads(operator.stdout.readline())["resources"] == 1
        wait_until(lambda: len(agents(home)) == 1, "an agent")
        operator.send_signal(signal.SIGTERM)
        _, said = operator.communicate(timeout=60)

    assert (operator.returncode, said.decode().splitlines()[-1]) == (0, "stopped")
    wait_until(lambda: not any(map(is_alive, processes_with(MARK, str(home.root)))), "their end")


@pytest.mark.usefixtures("no_leftovers")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_agents_outlive_an_operator_and_the_next_one_finds_them(home: Home, number: signal.Signals) -> None:
    with running(home) as operator:
        wait_until(lambda: len(agents(home)) == 1, "an agent")
        operator.send_signal(number)
        operator.communicate(timeout=60)
    before = agents(home)
    answer("run", str(home.root), "--once", "--settle", "0s")

    assert len(before) == 1
    assert agents(home) == before


def test_an_older_backup_is_shown_and_released(home: Home) -> None:
    declared = Declared(home.repository.store)
    declared.start("old")
    for _ in range(2):
        run_once(home.repository.create_backup("old", cluster_id="c", selection=SELECTION))
    words = ("release", "old", "--repo", str(home.root.parent / "backups"), "--reason", "it was looked at")
    refused = offsite(*words, "--yes")
    assert "only a backup that was replaced by another one can be released" in str(refused.exception)
    declared.decide(DeclaredEntryKind.STOPPED)
    asked = offsite(*words)
    assert isinstance(asked.exception, ConfirmationMissing)
    assert "would be deleted completely" in asked.stderr
    assert "120 records" in asked.stderr
    assert declared.history.backups[0].release is None
    done = answer(*words, "--yes")
    assert (done["backup"], done["released"], done["records"]) == ("old", True, 120)
    assert declared.history.backups[0].release is not None
    assert done["doubt"] == ""
    refused_here = offsite(*words[:4], "--refuse")
    assert "is kept for now: the release of" in refused_here.stdout
    assert "was refused on this machine" in " ".join(refused_here.stdout.split())
