"""The launch of a node, before there is a process."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from offsite.model.errors import BadOption
from offsite.sandbox.launch import NodeLaunch


@pytest.mark.skipif(not hasattr(os, "ST_NOEXEC"), reason="this system does not tell")
def test_a_folder_from_which_nothing_can_be_loaded_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC | os.ST_NOSUID))
    node = cast("Any", SimpleNamespace(folder=tmp_path / "node"))
    launch = NodeLaunch(node=node, jvm=cast("Any", None), settings=cast("Any", None), place={}, cluster_id="")
    with pytest.raises(BadOption, match="node is mounted with noexec") as raised:
        launch.begin()
    assert "TMPDIR" in raised.value.hint
