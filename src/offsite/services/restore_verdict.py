"""What a restore may claim, in words: never that something was verified where nothing was."""

from __future__ import annotations

from offsite.services.restore import RestoreResult

_NAMED_MAX = 12
"""Topics in one sentence."""


def nothing_restored(result: RestoreResult) -> str:
    """The sentence for a restore without records; empty for any other."""
    if result.records:
        return ""
    sources = sorted(topic.source for topic in result.topics.values())
    more = f" and {len(sources) - _NAMED_MAX:,} more topics" if len(sources) > _NAMED_MAX else ""
    aborted = sum(topic.invisible_records for topic in result.topics.values())
    but = f", but {aborted:,} aborted or undecided ones" if aborted else ""
    return (
        f"nothing was restored: at commit {result.commit} the backup holds no records of "
        f"{', '.join(sources[:_NAMED_MAX])}{more}{but}"
    )
