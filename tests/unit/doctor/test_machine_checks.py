"""What is told of this machine."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offsite.doctor import machine
from offsite.doctor.check import CheckVerdict
from offsite.doctor.parts import DoctorRequest, Parts
from offsite.model.errors import JavaMissing
from offsite.model.units import GIB, MIB
from tests.unit.doctor.conftest import found

PARTS = Parts(DoctorRequest())


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("17.0.9", CheckVerdict.OK), ("21", CheckVerdict.OK), ("11.0.2", None), ("1.8.0_292", None)],
)
def test_a_java_that_spark_does_not_run_on_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, verdict: CheckVerdict | None
) -> None:
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin" / "java"
    launcher.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    launcher.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if verdict is None:
        with pytest.raises(JavaMissing):
            machine.java(PARTS)
    else:
        assert machine.java(PARTS).verdict is verdict


def test_no_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing):
        machine.java(PARTS)


@pytest.mark.parametrize(
    ("free", "verdict"), [(10 * GIB, CheckVerdict.OK), (500 * MIB, CheckVerdict.WARNING), (MIB, CheckVerdict.FAILED)]
)
def test_little_room_is_told(monkeypatch: pytest.MonkeyPatch, free: int, verdict: CheckVerdict) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": free}))
    assert found(machine.space, PARTS).verdict is verdict


def limited(files: int, processes: int) -> Callable[[int], tuple[int, int]]:
    return lambda which: ((files if which == resource.RLIMIT_NOFILE else processes), -1)


@pytest.mark.parametrize(
    ("files", "processes", "cure"), [(256, 5000, "ulimit -n"), (65_536, 200, "ulimit -u"), (-1, -1, "")]
)
def test_low_limits_are_told_with_what_raises_them(
    monkeypatch: pytest.MonkeyPatch, files: int, processes: int, cure: str
) -> None:
    monkeypatch.setattr(resource, "getrlimit", limited(files, processes))
    told = found(machine.limits, PARTS)
    assert told.verdict is (CheckVerdict.WARNING if cure else CheckVerdict.OK)
    assert cure in told.cure


@pytest.mark.parametrize(("spark", "verdict"), [("4.0.1", CheckVerdict.OK), ("3.5.1", CheckVerdict.FAILED)])
def test_a_pyspark_of_another_kind_is_told(monkeypatch: pytest.MonkeyPatch, spark: str, verdict: CheckVerdict) -> None:
    def version(_: Any) -> str:
        return spark

    monkeypatch.setattr(machine, "version", version)
    assert found(machine.versions, PARTS).verdict is verdict


def test_the_place_of_the_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert found(machine.memory, PARTS).verdict is CheckVerdict.WARNING, "it is below the folder for temporary files"
    monkeypatch.setattr(machine, "_is_temporary", lambda _: False)
    told = found(machine.memory, PARTS)
    assert (told.verdict, told.said) == (
        CheckVerdict.OK,
        f"the last seen state of backups is stored in {tmp_path / 'offsite'}",
    )
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    lost = found(machine.memory, PARTS)
    assert lost.verdict is CheckVerdict.WARNING
    assert "XDG_STATE_HOME" in lost.cure
