from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.cli.commands import backup_follow
from offsite.cli.commands.backup import _note_gone
from offsite.follow.options import FollowWords, parse_follow
from offsite.model.errors import BadOption
from offsite.model.options import declared_options
from tests.unit.cli.test_help import COMMANDS

NAMES = ("--repo", "/nowhere", "--backup", "shop")
FOLLOWING = {
    "interval": "3s",
    "give-up-after": "2h",
    "metrics-port": "9464",
    "collect-after": "7d",
    "retain": "keep-age=7d",
    "retain-every": "4h",
    "every": "15m",
}


def test_topics_that_are_gone_are_noted_in_one_line_for_each_reason(capsys: pytest.CaptureFixture[str]) -> None:
    _note_gone((), (), ())
    assert not capsys.readouterr().err
    _note_gone([f"t{n}" for n in range(9)], ["t0", "made anew"], ["t1"])
    told = " ".join(capsys.readouterr().err.split())
    assert told.startswith("note: t0, made anew was deleted at the source; its backed-up records are kept")
    assert "warning: permission lost to describe t1" in told
    assert told.endswith(
        "note: the cluster does not show t2, t3, t4, t5, t6 and 2 more any more; earlier commits still hold the records"
    )


@pytest.mark.parametrize("command", [("follow",), ("run", "--follow")])
@pytest.mark.parametrize("given", [{}, FOLLOWING])
def test_backup_follow_does_what_backup_run_follow_does(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], given: dict[str, str]
) -> None:
    calls = list[tuple[Any, ...]]()
    monkeypatch.setattr(
        backup_follow, "follow_backup", lambda options, times, **others: calls.append((options, times, others))
    )
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    ended = CliRunner().invoke(app, ["backup", *command, *NAMES, "--topics", "a,b", *words, "-o", "jsonl"])
    assert ended.exit_code == 0, ended.output
    ((options, times, others),) = calls
    assert (options.repo, options.backup, options.words["topics"]) == ("/nowhere", "shop", ["a", "b"])
    assert times == parse_follow(FollowWords(**{name.replace("-", "_"): value for name, value in given.items()}))  # type: ignore[typeddict-item]
    assert others["output"] == "jsonl"


def test_backup_follow_has_the_options_of_a_run_and_no_other() -> None:
    options = {
        path: {parameter.opts[0]: parameter for parameter in COMMANDS[f"offsite backup {path}"].params}
        for path in ("run", "follow")
    }
    assert list(options["follow"]) == [name for name in options["run"] if name != "--follow"]
    assert {name: option.default for name, option in options["follow"].items()} == {
        name: option.default for name, option in options["run"].items() if name != "--follow"
    }
    only_following = {name for name, option in options["run"].items() if str(option.help).startswith("With --follow")}
    assert only_following == {f"--{word.name.replace('_', '-')}" for word in declared_options(FollowWords)}
    assert not [name for name, option in options["follow"].items() if "--follow" in str(option.help)]


@pytest.mark.parametrize(
    "words",
    [
        ("--metrics-port", "9464"),
        ("--every", "15m"),
        ("--participants", "acks", "--participant-topics", "a"),
        ("--zeebe", "http://localhost:9600"),
        ("--retain", "mirror"),
    ],
)
def test_what_works_only_with_follow_is_refused_without(words: tuple[str, ...]) -> None:
    ended = CliRunner().invoke(app, ["backup", "run", *NAMES, *words])
    assert isinstance(ended.exception, BadOption)
    assert ended.exception.message == f"{words[0]} works only with --follow"
    assert ended.exception.hint.startswith("add --follow")
