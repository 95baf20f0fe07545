"""The judge itself at its borders: an end is exclusive, so what stands at it is not kept."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

from offsite.cut.cut import GroupOffset
from offsite.cut.window import GroupCommit, SpanOutcome, TransactionSpan, Window, WrittenRange
from offsite.log.range import PartitionId
from tests import cut_judge
from tests.cut_judge import group_violations, violations

ORDERS, OFFSETS = PartitionId("orders", "id-orders", 0), PartitionId("__consumer_offsets", "id-offsets", 7)
COMMIT = GroupCommit(group="billing", partition=ORDERS, offset=90, log=OFFSETS, position=20, exactly_once=True)
INSIDE = Window(
    transactions=(
        TransactionSpan(
            producer_id=7,
            epoch=0,
            written={OFFSETS: WrittenRange(20, 20, 21)},
            outcome=SpanOutcome.COMMIT,
            reads=(COMMIT,),
        ),
    )
)
OLDER = Window(commits=(COMMIT,))


@pytest.mark.parametrize(
    ("orders", "offsets", "broken"),
    [(90, 22, []), (89, 22, ["C2"]), (89, 21, ["C1", "C2"]), (90, 21, ["C1"])],
)
def test_a_transaction_is_whole_or_not_there(orders: int, offsets: int, broken: list[str]) -> None:
    assert [each.rule for each in violations({ORDERS: orders, OFFSETS: offsets}, (), INSIDE)] == broken
    assert not list(violations({ORDERS: orders, OFFSETS: offsets}, INSIDE.transactions, INSIDE))


@pytest.mark.parametrize(("orders", "offsets", "broken"), [(90, 21, []), (89, 21, ["C2"]), (89, 20, [])])
def test_a_commit_without_its_transaction_counts_by_its_place(orders: int, offsets: int, broken: list[str]) -> None:
    assert [each.rule for each in violations({ORDERS: orders, OFFSETS: offsets}, (), OLDER)] == broken


@pytest.mark.parametrize(
    ("window", "end", "left_out", "counts"),
    [(INSIDE, 22, (), True), (INSIDE, 22, INSIDE.transactions, False), (OLDER, 21, (), True), (OLDER, 20, (), False)],
)
def test_a_group_has_what_a_coordinator_knows(
    window: Window, end: int, left_out: tuple[TransactionSpan, ...], counts: bool
) -> None:
    told = [GroupOffset(group="billing", partition=ORDERS, offset=90, committed=90)]
    ends = {ORDERS: 100, OFFSETS: end}
    assert bool(list(group_violations(ends, left_out, told, window))) is not counts
    assert bool(list(group_violations(ends, left_out, [], window))) is counts


def test_the_judge_shares_no_code_with_the_search() -> None:
    assert shared_code(Path(cut_judge.__file__).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "from offsite.cut.greatest import greatest_cut",
        "from offsite.cut.greatest import Effect",
        "from offsite.cut import group_offsets",
        "from offsite.cut.window import *",
        "from tests.cuts import cut",
        "from .cuts import cut",
        "import offsite.cut.effect",
        "def late():\n    from offsite.cut.effect import effects",
    ],
)
def test_an_import_of_the_search_is_noticed(line: str) -> None:
    assert len(shared_code(line)) == 1


def shared_code(source: str) -> list[str]:
    """What a file imports from this repository besides the values that cuts are made of."""
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [
        ("." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name, alias.name)
        for node in imports
        for alias in node.names
    ]
    ours = [(module, name) for module, name in names if module.split(".")[0] in {"offsite", "tests", ""}]
    return [f"{module}: {name}" for module, name in ours if not _is_value(module, name)]


def _is_value(module: str, name: str) -> bool:
    if (module, name) == ("offsite.log.range", "PartitionId"):  # the key of a cut's mappings
        return True
    if module not in {"offsite.cut.cut", "offsite.cut.window"} or name == "*":
        return False
    return not inspect.isfunction(getattr(import_module(module), name))
