from __future__ import annotations

import pytest

from offsite.cli.commands.backup import _note_gone


def test_topics_that_are_gone_are_noted_in_one_line_for_each_reason(capsys: pytest.CaptureFixture[str]) -> None:
    _note_gone((), (), ())
    assert not capsys.readouterr().err
    _note_gone([f"t{n}" for n in range(9)], ["t0", "made anew"], ["t1"])
    told = " ".join(capsys.readouterr().err.split())
    assert told.startswith("note: t0, made anew was deleted at the source; its backed-up records are kept")
    assert "warning: permission lost to describe t1" in told
    assert told.endswith(
        "note: the cluster does not show t2, t3, t4, t5, t6 and 2 more any more; earlier commits still hold the records"
    )
