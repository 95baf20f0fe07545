"""Who besides this user and root reaches a file: one judge for tokens, keys, properties and accounts."""

from __future__ import annotations

import os
import stat

import pytest

from offsite.model.machine import can_others_reach, can_others_write, exposure, is_of_another

MINE, STRANGER = os.geteuid(), 54_321


def status(mode: int, owner: int = MINE) -> os.stat_result:
    return os.stat_result((stat.S_IFREG | mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "reach", "write", "is_exposed"),
    [
        (0o600, False, False, False),
        (0o640, True, False, False),
        (0o660, True, True, False),
        (0o604, True, False, True),
        (0o602, True, True, True),
    ],
)
def test_its_mode_tells_who_reaches_a_file(mode: int, *, reach: bool, write: bool, is_exposed: bool) -> None:
    found = status(mode)
    assert (can_others_reach(found), can_others_write(found), bool(exposure(found))) == (reach, write, is_exposed)


def test_the_owner_of_a_file_reaches_it_whatever_its_mode_is() -> None:
    assert not is_of_another(status(0o600, owner=0))
    found = status(0o600, owner=STRANGER)
    assert (is_of_another(found), can_others_reach(found), can_others_write(found)) == (True, True, True)
    assert "another user owns it" in exposure(found)
