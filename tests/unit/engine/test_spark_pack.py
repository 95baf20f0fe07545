from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from offsite.engine import executor_archive as spark_pack
from offsite.engine.executor_archive import own_manifest, pack, plan_pack
from offsite.model.errors import BadOption, BadSparkArchive


def test_what_spark_brings_and_what_extras_need_stays_out() -> None:
    declared = ["aiokafka<0.15,>=0.14", "pyspark<5,>=4.0", "PySpark>=4", "py4j", 'kopf>=1.45; extra == "kubernetes"']
    plan = plan_pack(declared, [Path("/src/offsite")], extra=["gssapi"])
    assert plan.requirements == ("aiokafka<0.15,>=0.14", "gssapi")
    assert plan.packages == (Path("/src/offsite"),)
    assert plan.manifest == own_manifest()


def test_an_environment_that_is_shared_with_others_is_not_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(BadSparkArchive, match="is not a virtual environment"):
        pack(tmp_path / "offsite.pex")


def test_without_pex_the_way_to_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_pack, "find_spec", lambda _: None)
    with pytest.raises(BadSparkArchive) as raised:
        pack(tmp_path / "offsite.pex")
    assert raised.value.hint == "pip install 'offsite[pack]'"


@pytest.mark.slow
def test_what_cannot_be_packed_leaves_the_former_archive_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "offsite.pex"
    file.write_text("former")
    with pytest.raises(BadSparkArchive, match="no-such-distribution"):
        pack(file, extra=["no-such-distribution"])
    assert file.read_text() == "former"
    assert list(tmp_path.iterdir()) == [file]


def test_an_archive_takes_the_place_of_no_pipe(tmp_path: Path) -> None:
    os.mkfifo(file := tmp_path / "offsite.pex")
    with pytest.raises(BadOption, match="it is a pipe"):
        pack(file)
    assert file.is_fifo()
