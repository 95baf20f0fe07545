"""What a Spark of ours writes of a job whose function carries a secret."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import pytest

from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.model.secret import Secret
from tests import spark_tasks
from tests.integration.e2e.wire import seen_in
from tests.kept_files import kept_files
from tests.shared_spark import end_shared_spark

ROOT = Path(__file__).parents[3]
SECRET = "correct-horse-battery-staple"


@pytest.mark.parametrize("padding_bytes", [0, 3 << 20])
def test_a_secret_gets_into_no_file_however_large_the_function_is(
    padding_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyspark writes functions of more than a mebibyte into files, and deletes them."""
    end_shared_spark()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with tempfile.TemporaryDirectory(prefix="f-", dir="/tmp") as folder:
        written = Path(folder, "written")
        written.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(written))
        with kept_files(written, Path(folder, "kept")) as kept:
            spark = SparkRunner(SparkChoice(master="local[1]"))
            try:
                function = partial(spark_tasks.length_of, secret=Secret(SECRET), padding=bytes(padding_bytes))
                assert spark.run([0], function) == [len(SECRET)]
            finally:
                spark.close()
        found = [path for path, data in kept.files() if list(seen_in(data, {"it": SECRET}))]
        names = {path.name for path, _ in kept.files()}
    assert found == []
    assert "spark.log" in names
