from __future__ import annotations

import io
import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.cli.logs import log_command
from offsite.cli.progress import progress
from offsite.engine.runner import RunProgress
from offsite.model.errors import KafkaUnreachable, RepositoryNotFound, StoreInClear
from offsite.model.journal import JOURNAL, decided, failed, noted, warned
from offsite.repository.repository import Repository
from offsite.serve.site import Site, SiteSettings
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import ALLOW_HTTP

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) \w+( \w+=(\"[^\"]*\"|[^ \"]+))*")


def leaves(command: Any) -> list[Any]:
    children = getattr(command, "commands", None)
    return [command] if children is None else [leaf for child in children.values() for leaf in leaves(child)]


def test_every_command_has_the_options_of_all() -> None:
    for command in leaves(typer.main.get_command(app)):
        options = {name for parameter in command.params for name in parameter.opts}
        assert {"--verbose", "-v", "--log-file", "--allow-http"} <= options, command.name


def test_a_command_begins_and_ends_with_a_line_in_the_file_that_the_environment_names(tmp_path: Path) -> None:
    place, log = tmp_path / "repository", tmp_path / "log"
    done = CliRunner().invoke(app, ["init", str(place), "-o", "json"], env={"OFFSITE_LOG_FILE": str(log)})
    assert json.loads(done.stdout)["repository"] == str(place)
    assert done.stderr == ""
    began, ended = log.read_text().splitlines()
    assert LINE.fullmatch(began)
    assert 'INFO began command="offsite init" version=' in began
    assert "INFO ended exit_code=0" in ended


def test_the_place_of_a_repository_and_other_arguments_stay_out_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    CliRunner().invoke(app, ["init", str(tmp_path / "hunter2"), "--log-file", str(log)])
    assert "hunter2" not in log.read_text()


def test_an_error_is_logged_with_its_place_in_the_code(tmp_path: Path) -> None:
    log = tmp_path / "log"
    CliRunner().invoke(app, ["list", "--repo", str(tmp_path / "none"), "--log-file", str(log)])
    _, ended, *trace = log.read_text().splitlines()
    assert LINE.fullmatch(ended)
    assert "ERROR ended exit_code=10 error=OFF-1001" in ended
    assert trace
    assert all(line.startswith("    ") for line in trace)
    assert any("open_repository" in line for line in trace)


def test_a_log_file_that_cannot_be_written_stops_the_command_before_it_does_anything(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", str(tmp_path / "r"), "--log-file", str(tmp_path / "no" / "log")])
    assert "cannot write the log file" in str(done.exception)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("into_file", [False, True])
def test_a_coordinator_tells_who_looks_also_where_nobody_has_asked_for_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], into_file: bool
) -> None:
    log = tmp_path / "log"
    with log_command("offsite serve", verbose=False, log_file=log if into_file else None):
        noted("looked", by="ann")
    line = "INFO looked by=ann"
    assert (line in capsys.readouterr().err, log.exists() and line in log.read_text()) == (not into_file, into_file)


def test_verbose_shows_decisions_and_tracebacks_and_else_only_warnings_are_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run() -> list[str]:
        decided("hole", why="x")
        warned("hint_unusable", why="y")
        failed("task_failed", why="z", trace="Traceback\n\x1b[0m")
        return capsys.readouterr().err.splitlines()

    with log_command("offsite x", verbose=True, log_file=None):
        loud = run()
    capsys.readouterr()
    with log_command("offsite x", verbose=False, log_file=None):
        quiet = run()
    assert [line.split()[2] for line in loud if line[0] != " "] == ["began", "hole", "hint_unusable", "task_failed"]
    assert loud[-2:] == ["    Traceback", "    \\x1b[0m"]
    assert [line.split()[1:3] for line in quiet] == [["WARNING", "hint_unusable"]]


def test_nothing_listens_any_more_when_a_command_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger("offsite")
    before = (list(root.handlers), root.level)
    with pytest.raises(KafkaUnreachable), log_command("offsite x", verbose=True, log_file=None):
        raise KafkaUnreachable("gone")
    assert (list(root.handlers), root.level) == before
    assert not JOURNAL.isEnabledFor(logging.INFO)
    assert "KafkaUnreachable: gone" in capsys.readouterr().err


def test_a_line_goes_above_the_progress_bar_and_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    now = RunProgress(
        tasks_total=2, tasks_done=1, tasks_failed=0, moved_bytes=50, records=1, elapsed_s=1, worker_peak_rss_bytes=0
    )
    with log_command("offsite x", verbose=True, log_file=None), progress("copy", total_bytes=100) as on_progress:
        on_progress(now)
        decided("hole", topic="orders", why="retention")
        on_progress(now)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert re.search(r"(^|[\r\n])\S+Z INFO hole topic=orders why=retention\s*[\r\n]", shown)


def test_what_libraries_warn_of_is_shown_once_and_py4j_is_not_heard(capsys: pytest.CaptureFixture[str]) -> None:
    with log_command("offsite list", verbose=False, log_file=None):
        logging.getLogger("some.library").warning("look at this")
        logging.getLogger("some.library").info("not at this")
        record = logging.LogRecord("root", logging.ERROR, "/x/py4j/java_gateway.py", 1, "gone", (), None)
        logging.getLogger().handle(record)
        warned("unencrypted", why="a reason")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "look at this"
    assert [line.split(" ", 1)[1] for line in lines[1:]] == ['WARNING unencrypted why="a reason"']


def test_a_store_that_is_reached_in_clear_is_refused_unless_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def note_opened(store: CloudStore, **_: object) -> Repository:
        opened.append(store.url)
        raise RepositoryNotFound("nothing is asked of the network here")

    monkeypatch.setattr(Repository, "open", note_opened)
    monkeypatch.setenv(ALLOW_HTTP, "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    words = ["list", "--repo", "s3://bucket/kafka?endpoint=http://minio.internal:9000"]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, StoreInClear)
    assert opened == []
    with pytest.raises(StoreInClear):
        Site(SiteSettings(repo=words[-1])).repository()
    CliRunner().invoke(app, [*words, "--allow-http"])
    assert opened == ["s3://bucket/kafka"]
