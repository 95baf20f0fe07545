"""The cut against brute force: on thousands of small histories it is consistent, and nothing greater is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise, product

import pytest

from offsite.cut import effect, greatest, group_offsets
from offsite.cut.cut import Cut, GroupOffset
from offsite.cut.greatest import greatest_cut
from offsite.cut.judge import group_violations, violations
from offsite.cut.window import Ends, GroupCommit, Outcome, TransactionSpan, Window
from tests.cut_histories import History, random_history

HISTORIES = 2_000


def is_consistent(ends: Ends, window: Window) -> bool:
    return next(violations(ends, window), None) is None


def vectors(history: History, *, least: Ends | None = None) -> Iterator[Ends]:
    """All ends at or below those that were read, and at or above `least`."""
    spans = [range((least or {}).get(partition, 0), end + 1) for partition, end in history.ends.items()]
    return (dict(zip(history.ends, each, strict=True)) for each in product(*spans))


def wrong(history: History, cut: Cut) -> str:
    """What is wrong with a cut, by everybody who can tell; empty for nothing."""
    if not is_consistent(cut.ends, history.window):
        return "inconsistent"
    if any(cut.ends[partition] > end for partition, end in history.ends.items()):
        return "beyond what was read"
    if next(group_violations(cut.ends, cut.groups, history.window), None):
        return "groups"
    if not history.is_whole(cut.ends):
        return "a cause is not restored"
    greater = (each for each in vectors(history, least=cut.ends) if each != cut.ends)
    return "not the greatest" if any(is_consistent(each, history.window) for each in greater) else ""


@cache
def histories() -> tuple[History, ...]:
    return tuple(random_history(seed, partitions=3 + seed % 2) for seed in range(HISTORIES))


def findings(cuts: Callable[[History], Cut]) -> set[str]:
    """All that is wrong with the cuts of the first histories."""
    return {wrong(history, cuts(history)) for history in histories()[:500]} - {""}


def test_is_consistent_and_nothing_above_it_is() -> None:
    for seed, history in enumerate(histories()):
        assert not (found := wrong(history, greatest_cut(history.ends, history.window))), f"seed {seed}: {found}"


def test_is_above_every_consistent_vector() -> None:
    """Brute force that trusts no theorem: every vector at all."""
    for seed in range(250):
        history = random_history(seed, partitions=3 + (seed % 10 == 0), cap=5)
        cut = greatest_cut(history.ends, history.window)
        for ends in vectors(history):
            if is_consistent(ends, history.window):
                assert all(end <= cut.ends[partition] for partition, end in ends.items()), f"seed {seed}"


def test_raw_ends_are_caught() -> None:
    """The negative control: the ends as they were read, by the same judges."""
    caught = broken = 0
    for history in histories():
        raw_is_consistent = is_consistent(history.ends, history.window)
        caught += not raw_is_consistent
        broken += not history.is_whole(history.ends)
        # What breaks an application is never taken for consistent.
        assert history.is_whole(history.ends) or not raw_is_consistent
    print(f"of {HISTORIES} raw ends the judge catches {caught}; {broken} break an application")  # noqa: T201
    assert caught > HISTORIES // 4
    assert broken > HISTORIES // 20


def test_holds_tell_how_far_and_why() -> None:
    long_chains = 0
    for history in histories():
        cut = greatest_cut(history.ends, history.window)
        for partition, gap in cut.held_back().items():
            chain = cut.chain(partition)
            assert cut.direct_causes()[partition] == chain[0]
            assert chain[0].after == cut.ends[partition] == history.ends[partition] - gap
            for hold, cause in pairwise(chain):
                assert hold.short == cause.partition
                assert cause.after < hold.needed <= cause.before
            root = chain[-1]
            assert root.short is None or history.ends[root.short] < root.needed
            long_chains += len(chain) > 2
        assert set(cut.direct_causes()) == set(cut.held_back())
    assert long_chains > 10


def _with_outcome(window: Window, old: Outcome, new: Outcome) -> Window:
    changed = (replace(each, outcome=new if each.outcome is old else each.outcome) for each in window.transactions)
    return replace(window, transactions=tuple(changed))


def _with_earlier_markers(window: Window) -> Window:
    """As if a marker at the end were below it."""
    changed = (
        replace(
            each,
            written={
                partition: written._replace(marker=written.marker and written.marker - 1)
                for partition, written in each.written.items()
            },
        )
        for each in window.transactions
    )
    return replace(window, transactions=tuple(changed))


WINDOW_MISTAKES: dict[str, tuple[Callable[[Window], Window], str]] = {
    "aborted is taken for committed": (
        lambda window: _with_outcome(window, Outcome.ABORT, Outcome.COMMIT),
        "not the greatest",
    ),
    "committed is taken for aborted": (
        lambda window: _with_outcome(window, Outcome.COMMIT, Outcome.ABORT),
        "inconsistent",
    ),
    "open is taken for aborted": (lambda window: _with_outcome(window, Outcome.OPEN, Outcome.ABORT), "inconsistent"),
    "C3 is ignored": (lambda window: replace(window, records=()), "inconsistent"),
    "C7 is ignored": (lambda window: replace(window, superseded=()), "inconsistent"),
    "a marker at the end is below it": (_with_earlier_markers, "inconsistent"),
}


@pytest.mark.parametrize("mistake", WINDOW_MISTAKES)
def test_a_rule_left_out_is_caught(mistake: str) -> None:
    change, finding = WINDOW_MISTAKES[mistake]
    assert finding in findings(lambda history: greatest_cut(history.ends, change(history.window)))


def _one_pass(self: greatest._Descent) -> None:
    for number, each in enumerate(self._effects):
        is_short = any(end > self.ends.get(partition, end) for partition, end in each.needs.items())
        if is_short or not each.is_decided:
            self._take_back(number, short=None, needed=0)


def _meet_at_once(self: greatest._Descent, partition: object) -> list[object]:
    """`>=` for `>`."""
    fallen: list[object] = []
    waiting = self._waiting[partition]
    while waiting and waiting[-1][0] >= self.ends[partition]:
        needed, number = waiting.pop()
        fallen += self._take_back(number, short=partition, needed=needed)
    return fallen


def _first_pops_lowest(self: greatest._Descent, partition: object) -> list[object]:
    """The waiting effects in the wrong order."""
    self._waiting[partition].sort(reverse=True)
    return ORIGINAL_MEET(self, partition)


def _blind_to_reads(transaction: TransactionSpan) -> effect.Effect:
    """C2 ignored: the group commits are there, the ends do not heed them."""
    return replace(ORIGINAL_EFFECT(replace(transaction, reads=())), source=transaction)


ORIGINAL_MEET = greatest._Descent._meet
ORIGINAL_EFFECT = effect._of_transaction
CODE_MISTAKES = {
    "one pass only": (greatest._Descent, "run", _one_pass, "inconsistent"),
    ">= for >": (greatest._Descent, "_meet", _meet_at_once, "not the greatest"),
    "the lowest need first": (greatest._Descent, "_meet", _first_pops_lowest, "inconsistent"),
    "an unseen marker is there": (effect, "UNSEEN", 0, "inconsistent"),
    "C2 is ignored": (effect, "_of_transaction", _blind_to_reads, "inconsistent"),
    "groups are left out": (greatest, "group_offsets", lambda *_, **__: (), "groups"),
    "commits beyond the end count": (group_offsets, "_is_below", lambda *_: True, "groups"),
}


@pytest.mark.parametrize("mistake", CODE_MISTAKES)
def test_a_mistake_in_the_search_is_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, made, finding = CODE_MISTAKES[mistake]
    monkeypatch.setattr(place, name, made)
    assert finding in findings(lambda history: greatest_cut(history.ends, history.window))


def test_a_clamped_exactly_once_group_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends that ignore C2, and the group clamped to them: its outputs are there, and it reads their inputs again."""
    monkeypatch.setattr(effect, "_of_transaction", _blind_to_reads)
    monkeypatch.setattr(group_offsets, "_of", _clamp_all)
    caught = 0
    for history in histories():
        cut = greatest_cut(history.ends, history.window)
        if any(each.is_clamped and each.group == "transfer" for each in cut.groups):
            assert any(group_violations(cut.ends, cut.groups, history.window))
            caught += 1
    assert caught > 10


def _clamp_all(commit: GroupCommit, ends: Ends) -> GroupOffset:
    offset = min(commit.offset, ends[commit.partition])
    return GroupOffset(group=commit.group, partition=commit.partition, offset=offset, committed=commit.offset)


def test_a_plain_group_that_is_not_clamped_is_caught() -> None:
    caught = 0
    for history in histories():
        cut = greatest_cut(history.ends, history.window)
        groups = [replace(each, offset=each.committed) for each in cut.groups]
        is_wrong = any(group_violations(cut.ends, groups, history.window))
        assert is_wrong == any(each.is_clamped for each in cut.groups)
        caught += is_wrong
    assert caught > 10


def test_histories_are_worth_it() -> None:
    """Cuts between nothing and everything, with exactly-once groups that they keep, and with clamped ones."""
    cuts = [greatest_cut(history.ends, history.window) for history in histories()]
    kept = [each for cut in cuts for each in cut.groups if each.group == "transfer"]
    assert sum(bool(cut.held_back()) and any(cut.ends.values()) for cut in cuts) > HISTORIES // 4
    assert len(kept) > HISTORIES // 10
    assert not any(each.is_clamped for each in kept)
