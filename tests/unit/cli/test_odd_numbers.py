"""Numbers on the command line that Kafka cannot have: a wrong option, never a traceback or a bug."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.model.errors import Bug, OffsiteError
from offsite.stores.posix_store import PosixStore, open_folder
from tests.backups import new_backup, run_once

MANY = "9" * 5000
USAGE = 2


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    store = open_folder(tmp_path / "repository")
    run_once(new_backup(store))
    return store


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "b", "--commit", "9" * 40),
        ("groups", "show", "--backup", "b", "--commit", "9" * 40),
        ("cat", "orders", "--backup", "b", "--from", MANY),
        ("cat", "orders", "--backup", "b", "--from", f"@{MANY}"),
        ("cat", "orders", "--backup", "b", "--to", str(1 << 63)),
        ("cat", "orders", "--backup", "b", "--limit", "9" * 40),
        ("cat", f"orders/{MANY}", "--backup", "b"),
        ("cat", "orders", "--backup", "b", "--at", f"{MANY}d-ago"),
        ("restore", "map", f"orders/{MANY}", "5", "--backup", "b", "--restore", "x"),
        ("restore", "map", "orders/\u00b2", "5", "--backup", "b", "--restore", "x"),
        ("restore", "map", "orders/0", "9" * 40, "--backup", "b", "--restore", "x"),
        ("show", "../../etc/passwd"),
    ],
)
def test_a_number_or_a_name_that_cannot_be_is_the_users_error(store: PosixStore, arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*arguments, "--repo", str(store.root)])
    error = done.exception
    assert isinstance(error, OffsiteError | SystemExit)
    assert not isinstance(error, Bug)
    assert (error.exit_code if isinstance(error, OffsiteError) else error.code) == USAGE
