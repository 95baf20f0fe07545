from __future__ import annotations

from pathlib import Path

import pytest

from offsite.engine.sessions.submitted_spark import _why, cluster_defaults


def test_why_a_context_did_not_come_up_is_not_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(
        "INFO SparkContext: Running\nERROR SparkContext: Error initializing SparkContext.\n"
        "org.apache.spark.SparkException: Yarn application has already ended!\n\tat org.apache\n"
        "WARN YarnSchedulerBackend: Attempted to request executors before the AM has registered!\n"
    )
    assert _why(log) == "org.apache.spark.SparkException: Yarn application has already ended!"


def test_without_such_a_line_it_is_the_last_one(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    assert _why(log) == ""
    log.write_text("this\nand that\n")
    assert _why(log) == "and that"


def test_a_stack_is_not_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    said = 'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark'
    log.write_text(
        f"WARN NativeCodeLoader: no\n{said}\n\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)\n"
    )
    assert _why(log) == said


def test_settings_that_spark_will_read_by_itself_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = "# ours\nspark.executor.defaultJavaOptions  -XX:+ExitOnOutOfMemoryError -Da=b\n"
    (tmp_path / "spark-defaults.conf").write_text(written)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert cluster_defaults() == {"spark.executor.defaultJavaOptions": "-XX:+ExitOnOutOfMemoryError -Da=b"}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "none"))
    assert cluster_defaults() == {}
