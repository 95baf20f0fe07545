"""What a comparison reads of two backups: here, whether a log was cut back between them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.operator.decide.succession import Successor, judge_coverage
from offsite.operator.work.comparison import rewritten
from offsite.repository.state import BackupState
from offsite.stores.posix_store import open_folder
from tests.tables import ORDERS, batch_of, commit_batches, new_table

EPOCH = 3
"""Of the leader under which the older backup read the topic last."""


def backed_up(folder: Path, *batches: bytes, policy: str = "compact") -> BackupState:
    state = commit_batches(new_table(open_folder(folder)), {ORDERS: batches})
    shape = replace(state.topics[ORDERS.incarnation], configs=(("cleanup.policy", policy),))
    position = replace(state.positions[ORDERS], leader_epoch=EPOCH)
    return replace(state, topics={ORDERS.incarnation: shape}, positions={ORDERS: position})


@pytest.mark.parametrize(
    ("epochs", "is_cut_back"),
    [((3, 3, 3), False), ((3, 3, 4), False), ((2, 3, 5), False), ((3, 4, 4), True), ((4, 4, 4), True)],
)
def test_a_compacted_log_that_a_later_leader_wrote_anew_is_another_one(
    tmp_path: Path, epochs: tuple[int, ...], is_cut_back: bool
) -> None:
    """The older one has ten records that are nowhere else; the topic has the same id, and as many offsets."""
    older = backed_up(tmp_path / "older", batch_of(0, 10, leader_epoch=3), batch_of(10, 10, leader_epoch=3))
    newer = [batch_of(10 * number, 10, leader_epoch=epoch) for number, epoch in enumerate(epochs)]
    point = backed_up(tmp_path / "point", *newer)
    found = rewritten(open_folder(tmp_path / "point"), older, point)
    assert found == (frozenset({ORDERS}) if is_cut_back else frozenset())
    successor = Successor(name="b", point=point)
    assert judge_coverage(older, successor, same_batch={}, rewritten=found).may_go is not is_cut_back


def test_of_a_log_that_is_not_compacted_the_last_batch_tells(tmp_path: Path) -> None:
    older = backed_up(tmp_path / "older", batch_of(0, 10, leader_epoch=3), policy="delete")
    point = backed_up(tmp_path / "point", batch_of(0, 10, leader_epoch=4), policy="delete")
    assert not rewritten(open_folder(tmp_path / "point"), older, point)
