"""Secrets among Spark's settings: Spark has them, and no command line has."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from offsite.engine.local import pyspark_internals
from offsite.engine.local.pyspark_internals import InternalsMissing
from offsite.engine.sessions.local_session import LocalSession
from offsite.model.clock import SystemClock
from tests.processes import processes_with
from tests.shared_spark import end_shared_spark

MARK = "OFFSITE_TEST_MARK"


def lacking() -> None:
    raise InternalsMissing("a part")


@pytest.mark.parametrize("check", [pyspark_internals.check_parts, lacking], ids=["joined", "submitted"])
def test_no_secret_is_on_a_command_line_and_spark_has_each(
    monkeypatch: pytest.MonkeyPatch, check: Callable[[], None]
) -> None:
    end_shared_spark()
    hush = uuid.uuid4().hex
    names = ("spark.authenticate.secret", "spark.hadoop.fs.s3a.secret.key", "spark.hadoop.account.key.x", "spark.Mine")
    chosen = {name: f"{hush}-{name}" for name in names} | {"spark.redaction.regex": "Mine"}
    monkeypatch.setenv(MARK, hush)
    monkeypatch.setattr(pyspark_internals, "check_parts", check)
    shown = {"spark.app.name": "offsite", "spark.mine": "shown"}
    session = LocalSession("local[1]", {**chosen, **shown}, preload=(), clock=SystemClock())
    try:
        context, _ = session.ready()
        commands = list(processes_with(MARK, hush).values())
        has = dict(context.getConf().getAll())
    finally:
        session.close()
    assert any("spark.mine=shown" in each for each in commands), "the JVM was looked at"
    assert not [each for each in commands if f"{hush}-" in each]
    assert {name: has[name] for name in chosen} == chosen
