"""A follower at a terminal shows one screen, and what is not one is told as before."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import OFFSITE, clean_environment, succeed
from tests.integration.e2e.test_follow import make, producing
from tests.integration.kafka.cluster import Cluster
from tests.processes import processes_with, wait_until
from tests.pseudo_terminal import INTERRUPT, PATIENCE_S, Terminal, running_at_terminal

MARK = "OFFSITE_SCREEN_TEST"
COMMIT_LINE = re.compile(r"^commit \d+ at.*\n(?!  )", re.MULTILINE)
"""Of a commit about which there is no more to say."""


@contextmanager
def following(
    broker: SandboxInfo, folder: Path, pattern: str, *options: str, **more: str
) -> Iterator[tuple[subprocess.Popen[bytes], Terminal]]:
    succeed("init", folder / "repo")
    words = ["backup", "follow", "--backup", "b", "--topics", pattern, "--interval", "300ms", *options]
    place = {"OFFSITE_REPO": str(folder / "repo"), "OFFSITE_BOOTSTRAP": broker.bootstrap, MARK: str(folder)}
    environment = clean_environment({"TERM": "xterm-256color", **place, **more})
    with running_at_terminal([str(OFFSITE), *words], environment, columns=120, lines=12) as (process, terminal):
        yield process, terminal
        terminal.type(INTERRUPT)
        assert process.wait(PATIENCE_S) == 0, terminal.text
        terminal.read()
    wait_until(lambda: not processes_with(MARK, str(folder)), "every process to end")


@pytest.mark.soak
def test_a_follower_shows_what_it_does_in_one_place_and_its_last_state_stays(
    broker: SandboxInfo, tmp_path: Path
) -> None:
    pattern, topics = make(Cluster(broker.bootstrap), 8)
    with producing(broker.bootstrap, topics), following(broker, tmp_path, pattern, "--every", "1h") as (_, terminal):
        terminal.wait_for("backup b: starting", "backup b: following", "records/s", topics[0], "more topics")
    text = terminal.text
    assert COMMIT_LINE.search(text) is None, "commits are on the screen"
    assert "next checkpoint: in " in text
    assert "held back: no" in text
    last = text[text.rindex("backup b: following; ran for") :]
    assert re.search(r"and \d more topics", last)
    assert re.search(r"stopped: \d+ commits?, the newest is commit", last), "the screen stays above what is said after"
    assert "\x1b[?1049h" not in terminal.shown


@pytest.mark.soak
def test_the_screen_names_the_limits_that_hold_the_run_back(broker: SandboxInfo, tmp_path: Path) -> None:
    pattern, topics = make(Cluster(broker.bootstrap), 1)
    with (
        producing(broker.bootstrap, topics),
        following(broker, tmp_path, pattern, "--read-limit", "50kB") as (
            _,
            terminal,
        ),
    ):
        terminal.wait_for("held back: by the limits of the command, ", " of all tasks together", "copying: ", "task")


@pytest.mark.soak
@pytest.mark.parametrize("more", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_a_terminal_that_draws_nothing_has_a_line_for_each_commit(
    broker: SandboxInfo, tmp_path: Path, more: dict[str, str]
) -> None:
    pattern, topics = make(Cluster(broker.bootstrap), 1)
    with producing(broker.bootstrap, topics), following(broker, tmp_path, pattern, **more) as (_, terminal):
        terminal.wait_for("commit 1 at", "commit 2 at")
    assert "last commit" not in terminal.text
    assert "\x1b" not in terminal.shown


def test_the_status_is_watched_until_ctrl_c(broker: SandboxInfo, tmp_path: Path) -> None:
    pattern, _ = make(Cluster(broker.bootstrap), 1)
    names = ("--repo", tmp_path / "repo", "--backup", "b")
    succeed("init", tmp_path / "repo")
    succeed("backup", "run", *names, "--bootstrap", broker.bootstrap, "--topics", pattern)
    watch = [str(OFFSITE), "status", "--repo", str(tmp_path / "repo"), "--watch"]
    environment = clean_environment({"TERM": "xterm"})
    with running_at_terminal(watch, environment) as (process, terminal):
        terminal.wait_for("SAFE", "records/s", pattern[:-1])
        terminal.type(INTERRUPT)
        assert process.wait(PATIENCE_S) == 130
        assert "Traceback" not in terminal.text
    once = subprocess.run(watch, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert once.stdout.startswith("SAFE")
    assert "records/s" not in once.stdout
