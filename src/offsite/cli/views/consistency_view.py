"""Shows how consistent the topics of a restore point are, for people. Of many topics the first are named; the JSON has
all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.reports.cut_report import ConsistencyReport, LeftOutReport

_NAMED_MAX = 5
"""Transactions, and partitions of a transaction, that are named."""
_TOPICS_MAX = 12
"""Topics whose class is shown when classes differ."""


def render_consistency(console: Console, report: ConsistencyReport) -> None:
    """Show the consistency, the class first: the class is the strongest permitted claim."""
    if report.why:
        console.print(f"  as copied, {report.weakest}: {report.why}")
        return
    console.print(f"  consistent cut, {report.weakest}")
    if report.newer is not None:
        console.print(f"    newer: {report.newer}")
    if len({topic_class for _, topic_class in report.classes}) > 1:
        named = ", ".join(f"{topic} {topic_class}" for topic, topic_class in report.classes[:_TOPICS_MAX])
        more = len(report.classes) - _TOPICS_MAX
        console.print(f"    by topic: {named}{f' and {more:,} more (all of them with -o json)' if more > 0 else ''}")
    _render_left_out(console, report)
    for note in report.notes:
        console.print(f"    note: {note}")


def _render_left_out(console: Console, report: ConsistencyReport) -> None:
    if not report.left_out_count:
        return
    noun = "transaction" if report.left_out_count == 1 else "transactions"
    console.print(f"    left out of the commit, as if aborted: {report.left_out_count:,} {noun}")
    for transaction in report.left_out[:_NAMED_MAX]:
        console.print(f"      {transaction.name} in {_partitions(transaction)}: {transaction.why}")
    if len(report.left_out) > _NAMED_MAX:
        console.print(f"      {len(report.left_out) - _NAMED_MAX} more (the first hundred with -o json)")


def _partitions(transaction: LeftOutReport) -> str:
    more = len(transaction.partitions) - _NAMED_MAX
    return f"{', '.join(transaction.partitions[:_NAMED_MAX])}{f' and {more:,} more' if more > 0 else ''}"
