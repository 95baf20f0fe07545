"""What a command imports before it answers: that is nearly all of its time. The counts are bounds, not figures to
meet: whoever needs more looks first at what can be imported later, or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from offsite.stores.posix_store import open_folder
from tests.backups import new_backup, run_once

_SCRIPT = """
import json, sys
from offsite.cli.main import main
sys.argv = ["offsite", *sys.argv[1:]]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
_SHOWS = frozenset({"rich"})
_READS = frozenset({"blake3", "zstandard"})
_HEAVY = _SHOWS | _READS | {
    "aiokafka", "asyncio", "cramjam", "crc32c", "cronsim", "fastapi", "fastavro", "kafka", "obstore",
    "prometheus_client", "py4j", "pyarrow", "pydantic", "pyspark", "ssl", "uvicorn", "yaml",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    modules: frozenset[str]

    @property
    def own(self) -> frozenset[str]:
        return frozenset(each for each in self.modules if each.partition(".")[0] == "offsite")

    @property
    def commands(self) -> frozenset[str]:
        room = "offsite.cli.commands."
        return frozenset(each.removeprefix(room) for each in self.own if each.startswith(room))

    @property
    def heavy(self) -> frozenset[str]:
        return frozenset({each.partition(".")[0] for each in self.modules} & _HEAVY)


def loaded_by(*arguments: str) -> Loaded:
    command = [sys.executable, "-c", _SCRIPT, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return Loaded(modules=frozenset(json.loads(answer.stderr.splitlines()[-1])))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = open_folder(tmp_path_factory.mktemp("start") / "repository")
    run_once(new_backup(store))
    return store.root


def test_the_help_imports_no_command() -> None:
    loaded = loaded_by("--help")

    assert loaded.commands == set()
    assert loaded.heavy == set()
    assert len(loaded.own) <= 25


@pytest.mark.parametrize("command", ["backup", "restore", "operator", "metastore", "serve"])
def test_the_help_of_a_command_imports_no_other_and_nothing_of_what_they_work_with(command: str) -> None:
    loaded = loaded_by(command, "--help")

    assert command in {each.rpartition(".")[2] for each in loaded.commands}
    assert not loaded.commands & {"compact", "records", "repository"}
    assert loaded.heavy == set()
    assert len(loaded.own) <= 60


@pytest.mark.parametrize("form", [[], ["-o", "json"]])
@pytest.mark.parametrize("command", ["list", "status"])
def test_a_look_at_a_repository_imports_what_reads_it(command: str, form: list[str], repository: Path) -> None:
    loaded = loaded_by(command, "--repo", str(repository), *form)

    assert loaded.commands == {"repository"}
    assert loaded.heavy == _READS | (_SHOWS if command == "list" and not form else set())
    assert len(loaded.own) <= 150
    assert not {each for each in loaded.own if each.startswith(("offsite.kafka", "offsite.engine"))}


def test_the_package_is_the_command() -> None:
    answer = subprocess.run([sys.executable, "-m", "offsite", "-h"], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("Usage: python -m offsite [OPTIONS] COMMAND")
