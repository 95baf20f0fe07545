"""What a checkpoint in the background hears of Spark's settings, which may hold Spark's own secret."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from offsite.checkpoint.background import Background
from offsite.cli.wiring import CONF_VARIABLE, PROPERTIES_VARIABLE, SparkOptions
from offsite.model.errors import BadOption
from tests.processes import wait_until

SETTING = "spark.authenticate.secret=hunter2"


def test_settings_are_on_no_command_line_and_the_environment_tells_the_same() -> None:
    options = SparkOptions(spark_master="spark://here:7077", spark_conf=["spark.a=x y", SETTING])
    assert options.arguments() == ["--spark-master", "spark://here:7077", "--secrets", "encrypted"]
    assert options.environment() == {"OFFSITE_SPARK_CONF": f"spark.a=x y\n{SETTING}"}
    assert SparkOptions().environment() == {}


def test_a_value_survives_the_environment_whatever_signs_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = "a\u2028b\x85c\vd\fe\rf\x1cg"
    told = SparkOptions(spark_conf=[f"spark.a={strange}"]).environment()
    monkeypatch.setenv(CONF_VARIABLE, told[CONF_VARIABLE])
    assert SparkOptions().choice().conf == {"spark.a": strange}
    assert SparkOptions().environment() == told


def test_two_lines_in_one_option_are_refused() -> None:
    with pytest.raises(BadOption, match=r"spark\.a"):
        SparkOptions(spark_conf=["spark.a=b\nspark.c=d"]).environment()


def test_what_is_typed_wins_over_the_environment_and_settings_over_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.write_text("spark.a=file of environment\nspark.b=file of environment\n")
    ours.write_text("spark.b=file\nspark.c=file\n")
    monkeypatch.setenv(CONF_VARIABLE, "spark.b=environment\nspark.c=environment\nspark.d=environment")
    monkeypatch.setenv(PROPERTIES_VARIABLE, str(theirs))
    by_environment = SparkOptions(spark_properties=theirs, spark_conf=["spark.d=typed"])
    assert by_environment.choice().conf == {
        "spark.a": "file of environment",
        "spark.b": "environment",
        "spark.c": "environment",
        "spark.d": "typed",
    }
    typed = SparkOptions(spark_properties=ours, spark_conf=["spark.c=typed"])
    chosen = {"spark.b": "file", "spark.c": "typed", "spark.d": "environment"}
    assert typed.choice().conf == chosen
    assert "--spark-properties" not in typed.arguments(), "or there it would win over the settings"
    told = typed.environment()
    assert told.pop(PROPERTIES_VARIABLE) == "", "or the file of the environment would be read after all"
    monkeypatch.setenv(CONF_VARIABLE, told.pop(CONF_VARIABLE))
    assert SparkOptions().choice().conf == chosen
    assert told == {}


def test_a_background_process_has_them_in_its_environment(tmp_path: Path) -> None:
    environment = {"OFFSITE_SPARK_CONF": SETTING, "OFFSITE_REPO": str(tmp_path)}
    background = Background(arguments=["checkpoint", "take", "--help"], environment=environment)
    background.begin()
    process = background._process
    assert isinstance(process, subprocess.Popen)
    shown = Path(f"/proc/{process.pid}/environ")
    try:
        wait_until(lambda: shown.read_bytes() != b"", "the kernel has put its environment in place")
        seen = shown.read_bytes()
        assert SETTING.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    finally:
        process.kill()
        process.wait()
    assert f"OFFSITE_SPARK_CONF={SETTING}".encode() in seen
