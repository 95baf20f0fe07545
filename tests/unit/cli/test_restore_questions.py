"""`offsite restore run` without options, on a terminal: it asks, and says the command that does the same."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.cli.commands import restore
from offsite.cli.commands.restore_questions import ask_restore, same_command
from offsite.cli.commands.restore_source import RestoreRunOptions
from offsite.cli.output import can_ask, confirm
from offsite.cli.wiring import SparkOptions
from offsite.model.errors import BadKafkaConfig, BadOption, ConfirmationMissing
from offsite.restore.options import RestoreWords
from tests.fake_cluster.site import Site, open_site
from tests.pseudo_terminal import at_terminal


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path) as opened:
        for topic in ("orders", "payments", "users"):
            opened.source.make_topic(topic)
            opened.source.write(topic, [b"a", b"b"])
        opened.back_up("*")
        opened.source.write("orders", [b"c"])
        opened.back_up()
        yield opened


def given(site: Site, **words: object) -> RestoreRunOptions:
    bootstrap = str(site.target.address)
    return RestoreRunOptions(repo=site.repository.store.url, bootstrap=bootstrap, words=RestoreWords(**words))  # type: ignore[typeddict-item]


def asked(monkeypatch: pytest.MonkeyPatch, options: RestoreRunOptions, *answers: str) -> tuple[RestoreRunOptions, str]:
    """The options with the answers, and what was on the screen."""
    with at_terminal(monkeypatch, "".join(f"{answer}\n" for answer in answers)) as terminal:
        return ask_restore(options), terminal.text


def test_enter_takes_the_newest_of_everything_under_its_own_names(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    options, screen = asked(monkeypatch, given(site), "", "", "", "", "")

    assert options.backup == "nightly"
    assert {name: value for name, value in options.words.items() if value} == {}
    assert same_command(options, SparkOptions(), verify=True, take_over=False) == (
        f"offsite restore run --repo={site.repository.store.url} --backup=nightly --bootstrap={site.target.address} "
        "--yes"
    )
    for question in ("which backup?", "which topics?", "which restore point?", "into which cluster?", "which names?"):
        assert question in screen


def test_answers_are_numbers_names_patterns_commits_and_times(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    options, _ = asked(monkeypatch, given(site), "nightly", "1, user*", "1", "", "orders=o, u*=v*")
    assert options.words == {"topics": ["orders", "user*"], "commit": 1, "rename": ["orders=o", "u*=v*"]}


def test_a_wrong_answer_is_asked_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        "9",
        "1",
        "ordres",
        "regex:(",
        "2-3",
        "orders",
        "99",
        "soon",
        "2026-11-20 14:00",
        "",
        "orders",
        "orders=o",
    ]
    options, screen = asked(monkeypatch, given(site), *answers)

    assert options.words == {"topics": ["orders"], "at": "2026-11-20T14:00:00.000Z", "rename": ["orders=o"]}
    assert "'9' is not a backup of the repository" in screen
    assert "no topic of the backup matches 'ordres'" in screen
    assert "'99' is neither a restore point nor a time" in screen


def test_topics_that_exist_are_restored_under_new_names_unless_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("orders", "restored-users"):
        site.target.make_topic(topic)
    options, screen = asked(monkeypatch, given(site), "", "", "", "", "")

    assert options.words["rename"] == ["*=restored-2-*"]
    assert "orders exists in the cluster" in screen
    command = same_command(options, SparkOptions(), verify=False, take_over=False)
    assert shlex.split(command)[-2:] == ["--no-verify", "--yes"]
    assert "'--rename=*=restored-2-*'" in command


def test_what_is_typed_is_not_asked_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    options, screen = asked(monkeypatch, given(site, topics=["users"], commit=1, rename=["users=u"]), "", "")

    assert (options.backup, options.words) == ("nightly", {"topics": ["users"], "commit": 1, "rename": ["users=u"]})
    assert "which topics?" not in screen


def test_the_end_of_the_input_ends_the_questions(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with at_terminal(monkeypatch, "1\n"), pytest.raises(ConfirmationMissing, match="which topics"):
        ask_restore(given(site))


def test_what_was_typed_before_a_plan_could_be_read_does_not_confirm_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with at_terminal(monkeypatch, "y\n") as terminal:
        Timer(0.5, terminal.type, ["n\n"]).start()
        with pytest.raises(ConfirmationMissing, match="restore into"):
            confirm("restore into cluster c?")


def test_a_repository_without_a_restore_point_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_site(tmp_path) as site, pytest.raises(BadOption, match="has no backup yet"):
        asked(monkeypatch, given(site))


def test_names_of_strangers_are_escaped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    _, screen = asked(monkeypatch, given(site), "\x1b[2J\u202e", "", "", "", "", "")
    refusal = next(line for line in screen.splitlines() if "is not a backup" in line)
    assert r"\x1b" in refusal
    assert r"\u202e" in refusal


@pytest.mark.parametrize("more", [["--yes"], ["-o", "json"], []])
def test_without_a_terminal_and_with_yes_or_json_it_fails_as_before(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "can_ask", lambda: bool(more))
    ended = CliRunner().invoke(app, ["restore", "run", *more], env={"OFFSITE_REPO": str(tmp_path)})
    assert isinstance(ended.exception, BadKafkaConfig), ended.output
    assert "which" not in ended.output


def test_it_asks_only_who_reads_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not can_ask()
    with at_terminal(monkeypatch):
        assert can_ask()
