from __future__ import annotations

from pathlib import Path

import pytest

from offsite.model.errors import SandboxFailed
from offsite.sandbox.process import FILE_NAME, NodeState, ProcessId, read_state, write_state

STATE = NodeState(ports={"PLAINTEXT": 1, "CONTROLLER": 2}, process=ProcessId(pid=3, started="4"))


def test_the_last_state_written_is_read(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    write_state(tmp_path, STATE)
    assert read_state(tmp_path) == STATE


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"ports": {}, "process": {"pid": 1}}'])
def test_a_file_that_is_no_state_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(SandboxFailed, match=FILE_NAME):
        read_state(tmp_path)
