"""A person at a terminal restores without knowing an option, and can stop at each question."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import OFFSITE, clean_environment, offsite
from tests.integration.e2e.site import BACKUP, Site, values
from tests.processes import processes_with, wait_until
from tests.pseudo_terminal import END_OF_INPUT, INTERRUPT, PATIENCE_S, running_at_terminal

MARK = "OFFSITE_QUESTIONS_TEST"
VALUES = [b"a", b"b", b"c"]
ATTENTION = 3


@pytest.fixture
def topic(site: Site) -> str:
    topic = site.make_topic()
    site.produce(topic, (DemoMessage(key=b"k", value=value, timestamp_ms=BASE_MS) for value in VALUES))
    site.back_up(topic)
    return topic


@pytest.fixture
def environment(broker: SandboxInfo, site: Site, tmp_path: Path) -> dict[str, str]:
    place = {"OFFSITE_REPO": site.repository.store.url, "OFFSITE_BOOTSTRAP": broker.bootstrap}
    return clean_environment({**place, MARK: str(tmp_path)})


@pytest.mark.soak
def test_a_topic_comes_back_by_answers_alone_and_the_told_command_continues(
    site: Site, topic: str, environment: dict[str, str]
) -> None:
    with running_at_terminal([str(OFFSITE), "restore", "run"], environment, columns=200) as (process, terminal):
        terminal.wait_for("which backup?", "[1]:")
        terminal.type("\n")
        terminal.wait_for(topic, "which topics?", "[all]:")
        terminal.type(f"{topic}\n")
        terminal.wait_for("which restore point?", "[newest]:")
        terminal.type("\n")
        terminal.wait_for("into which cluster?", f"[{environment['OFFSITE_BOOTSTRAP']}]:")
        terminal.type("\n")
        terminal.wait_for(f"{topic} exists in the cluster", f"restored-{topic}", "[2]:")
        terminal.type("\n")
        terminal.wait_for("the same without questions: ", "restore into cluster", "[y/N]")
        terminal.type("y\n")
        assert process.wait(PATIENCE_S) == 0, terminal.text
        shown = terminal.text
    assert "verified: every record was read back and equals the backup" in shown
    assert values(site.read(f"restored-{topic}")) == VALUES
    printed = next(line for line in shown.splitlines() if line.startswith("the same without questions: "))
    words = shlex.split(printed.partition(": ")[2])
    assert words[:3] == ["offsite", "restore", "run"]
    assert set(words[3:]) == {
        f"--repo={environment['OFFSITE_REPO']}",
        f"--bootstrap={environment['OFFSITE_BOOTSTRAP']}",
        f"--backup={BACKUP}",
        f"--topics={topic}",
        "--rename=*=restored-*",
        "--yes",
    }
    assert offsite(*words[1:]).error["id"] == "OFF-1402", "it is what was done: the target is not empty any more"


@pytest.mark.soak
def test_a_topic_that_the_cluster_lost_is_told_and_comes_back_under_its_own_name_by_enter_alone(
    site: Site, topic: str, environment: dict[str, str]
) -> None:
    before = site.read(topic)
    site.cluster.admin.delete_topics([topic])
    status = offsite("status", f"--against={environment['OFFSITE_BOOTSTRAP']}", environment=environment)
    assert status.exit_code == ATTENTION, status.stderr
    (compared,) = status.result["backups"][0]["source"]["topics"]
    assert (compared["topic"], compared["state"]) == (topic, "gone")
    cluster = f"[{environment['OFFSITE_BOOTSTRAP']}]:"
    questions = ["which backup?", "which topics?", "which restore point?", cluster, "which names?"]
    with running_at_terminal([str(OFFSITE), "restore", "run"], environment, columns=200) as (process, terminal):
        for number in range(1, len(questions) + 1):
            terminal.wait_for(*questions[:number])
            terminal.type("\n")
        terminal.wait_for("the same without questions: ", "restore into cluster", "[y/N]")
        terminal.type("y\n")
        assert process.wait(PATIENCE_S) == 0, terminal.text
        assert "verified: every record was read back and equals the backup" in terminal.text
    site.assert_same(before, site.read(topic))


@pytest.mark.parametrize(("typed", "exit_code"), [(INTERRUPT, 130), (END_OF_INPUT, 14)])
def test_a_question_that_is_not_answered_ends_the_command_and_nothing_was_begun(
    topic: str, environment: dict[str, str], tmp_path: Path, typed: str, exit_code: int
) -> None:
    with running_at_terminal([str(OFFSITE), "restore", "run"], environment) as (process, terminal):
        terminal.wait_for("which backup?", "[1]:")
        terminal.type("\n")
        terminal.wait_for(topic, "which topics?", "[all]:")
        terminal.type(typed)
        assert process.wait(PATIENCE_S) == exit_code, terminal.text
        assert "Traceback" not in terminal.text
    wait_until(lambda: not processes_with(MARK, str(tmp_path)), "every process to end")
    assert not list((tmp_path / "repository").glob("backups/*/restores/*"))
