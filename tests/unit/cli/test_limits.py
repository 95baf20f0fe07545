from __future__ import annotations

import pytest
from typer.testing import CliRunner

from offsite.backup.options import parse_backup, parse_limits
from offsite.cli.commands.backup import app
from offsite.cli.commands.restore import app as restore_app
from offsite.cli.progress import _held_back, _Lines
from offsite.engine.rate_limits import RateLimits
from offsite.engine.runner import RunProgress
from offsite.model.errors import BadOption


def test_no_limit_unless_told() -> None:
    assert parse_limits({}) == parse_limits({"read_limit": None}) == RateLimits()
    assert not RateLimits().by_direction()


def test_each_limit_is_read_on_its_own() -> None:
    assert parse_limits({"read_limit": "50MB"}) == RateLimits(read_bytes_per_s=50_000_000)
    assert parse_limits({"write_limit": "1MiB/s"}) == RateLimits(write_bytes_per_s=1 << 20)
    with pytest.raises(BadOption, match="--write-limit"):
        parse_limits({"write_limit": "much"})
    assert parse_backup("b", {"read_limit": "50MB"}) == parse_backup("b", {}), "how fast is no part of what"


def test_a_run_has_the_options_and_a_plan_which_copies_nothing_has_not() -> None:
    run, plan = (CliRunner().invoke(app, [command, "--help"]).output for command in ("run", "plan"))
    for option in ("--read-limit", "--write-limit"):
        assert option in run
        assert option not in plan


def test_progress_tells_what_holds_a_run_back() -> None:
    def told(**more: float) -> str:
        counts = {"tasks_total": 1, "tasks_done": 0, "tasks_failed": 0, "moved_bytes": 1, "records": 1}
        return _held_back(RunProgress(**counts, elapsed_s=1.0, worker_peak_rss_bytes=1, **more))

    assert told() == ""
    assert told(limited_s=3).startswith(", throttled by the limits of the command for 3")
    assert told(throttled_s=2, limited_s=3).count("throttled") == 2


def test_lines_of_progress_go_on_when_another_run_begins(capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"tasks_total": 1, "tasks_done": 0, "tasks_failed": 0, "moved_bytes": 1, "records": 1}
    lines = _Lines("verify")
    for _ in range(2):
        for second in range(0, 100, 10):
            lines(RunProgress(**counts, elapsed_s=second, worker_peak_rss_bytes=1))
        assert capsys.readouterr().err


def test_a_restore_has_a_write_limit_and_its_plan_which_writes_nothing_has_none() -> None:
    run, plan = (CliRunner().invoke(restore_app, [command, "--help"]).output for command in ("run", "plan"))
    assert "--write-limit" in run
    assert "--write-limit" not in plan
    assert "--batch-bytes" in run
    assert "--batch-bytes" in plan, "it is a part of what is restored"
