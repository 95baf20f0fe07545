"""A command forked from the template is the command: what it prints and how it ends are a started one's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.e2e.command import Finished, offsite, started


def seen(done: Finished) -> tuple[int, str, str]:
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["list", "--repo", "kept"],
        ["list"],
        ["init", "kept"],
        ["backup", "run", "--nonsense"],
        ["status", "-o", "table"],
    ],
    ids=" ".join,
)
def test_it_prints_and_ends_as_one_that_was_started(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert offsite("init", "kept").exit_code == 0
    named = {"OFFSITE_REPO": "kept", "COLUMNS": "60"}
    assert seen(offsite(*words, environment=named)) == seen(started(*words, environment=named))


def test_nothing_of_one_command_is_left_for_the_next(tmp_path: Path) -> None:
    assert offsite("init", environment={"OFFSITE_REPO": str(tmp_path / "kept")}).exit_code == 0
    assert seen(offsite("list")) == seen(started("list"))
