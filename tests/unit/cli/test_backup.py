from __future__ import annotations

import pytest

from offsite.cli.commands.backup import _note_vanished


def test_topics_that_are_gone_are_noted_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    _note_vanished(())
    assert not capsys.readouterr().err
    _note_vanished([f"t{n}" for n in range(7)])
    told = " ".join(capsys.readouterr().err.split())
    assert told.startswith("note: the cluster does not show t0, t1, t2, t3, t4 and 2 more any more")
