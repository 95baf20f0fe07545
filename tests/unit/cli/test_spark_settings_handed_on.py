"""What a checkpoint in the background hears of Spark's settings, which may hold Spark's own secret."""

from __future__ import annotations

import subprocess
from pathlib import Path

from offsite.cli.options.spark import SparkOptions
from offsite.services.checkpoint.background import Background

SETTING = "spark.authenticate.secret=hunter2"


def test_settings_are_on_no_command_line_and_the_environment_tells_the_same() -> None:
    options = SparkOptions(spark_master="spark://here:7077", spark_conf=["spark.a=x y", SETTING])
    assert options.arguments() == ["--spark-master", "spark://here:7077", "--secrets", "encrypted"]
    assert options.environment() == {"OFFSITE_SPARK_CONF": f"spark.a=x y\n{SETTING}"}
    assert SparkOptions().environment() == {}


def test_a_background_process_has_them_in_its_environment(tmp_path: Path) -> None:
    environment = {"OFFSITE_SPARK_CONF": SETTING, "OFFSITE_REPO": str(tmp_path)}
    background = Background(arguments=["checkpoint", "take", "--help"], environment=environment)
    background.begin()
    process = background._process
    assert isinstance(process, subprocess.Popen)
    try:
        seen = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert SETTING.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    finally:
        process.kill()
        process.wait()
    assert f"OFFSITE_SPARK_CONF={SETTING}".encode() in seen
