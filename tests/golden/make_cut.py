"""How `cut/history.json` was made, once: `python -m tests.golden.make_cut FOLDER`. The pictures of the docs are of it.

The exactly-once application of the tests of restores, on few partitions, is backed up while it runs. Of the commits
whose ends as copied break it, the one that shows most in little room is kept: all that its cut was made from, and where
the markers landed that came later.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from docs.drawings.history import History, encode_history
from offsite.backup import pass_cut
from offsite.cut.episodes import window_of
from offsite.cut.greatest import greatest_cut
from offsite.cut.readings import CutEvidence
from offsite.cut.window import SpanOutcome
from offsite.log.range import PartitionId
from offsite.model.options import CutChoice, OffsetsMode
from offsite.model.selection import ALL_GROUPS, parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.repository import Repository
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxSettings
from offsite.stores.open_store import open_store
from tests.integration.e2e import transfers
from tests.integration.e2e.group_site import Groups
from tests.integration.e2e.transacting import markers_of
from tests.integration.e2e.transfers import LEDGER, ORDERS, PAID, RECEIPTS, Application, audit, make_topics, running
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.shared_brokers import running as brokers_running
from tests.shared_spark import end_shared_spark, shared_spark

COMMITS, WORKERS = 40, 4
PARTITIONS = {ORDERS: 4, PAID: 2, LEDGER: 1, RECEIPTS: 2}
_numbers = itertools.count()

Seen = list[tuple[int, CutEvidence]]


def make() -> Iterator[dict[str, Any]]:
    """The commits that break as copied, what shows most first."""
    with _groups() as groups, mock.patch.dict(transfers.PARTITIONS, PARTITIONS):
        names = make_topics(groups.source)
        application = Application(bootstrap=groups.source.bootstrap, names=names, family=names[ORDERS])
        seen = _backed_up(groups, application)
        keys = list(seen[0][1].readings[-1].ends)
        markers = markers_of(groups.source, keys)
        candidates = sorted(((_shows(each), commit, each) for commit, each in seen), key=lambda row: row[:2])
        for shows, commit, evidence in reversed(candidates[-6:]):
            copied = _faults(groups, application, commit, CutChoice.AS_COPIED)
            if not copied or not shows:
                continue
            assert not _faults(groups, application, commit, CutChoice.CONSISTENT)
            history = History(evidence=evidence, later=_later(evidence, markers), faults=tuple(copied))
            yield encode_history(history, _readable(application))


@contextmanager
def _groups() -> Iterator[Groups]:
    folder = Path(sys.argv[1])
    with (
        brokers_running(folder / "a", SandboxSettings(brokers=3)) as (_, source),
        brokers_running(folder / "b") as (_, target),
    ):
        repository = Repository.init(open_store(str(folder / "repository")))
        yield Groups(Cluster(source.bootstrap), Cluster(target.bootstrap), repository, shared_spark())
        end_shared_spark()


def _backed_up(groups: Groups, application: Application) -> Seen:
    seen: list[CutEvidence] = []
    found_cut: Callable[..., Any] = pass_cut.find_cut

    def listening(evidence: CutEvidence, *rest: Any, **more: Any) -> Any:
        seen.append(evidence)
        return found_cut(evidence, *rest, **more)

    chance, commits = random.Random(3), []
    with mock.patch.object(pass_cut, "find_cut", listening), running(application, workers=WORKERS):
        wait_until(lambda: groups.source.end(application.names[ORDERS]) > 100)
        while len(commits) < COMMITS:
            commits.append(groups.back_up(*([] if commits else application.names.values())).commit)
            time.sleep(chance.uniform(0, 0.3))
    return [(commit, evidence) for commit, evidence in zip(commits, seen, strict=True)]


def _shows(evidence: CutEvidence) -> int:
    """How many markers of transactions that are left out lie below the ends; 0 where none is torn."""
    cut = greatest_cut(evidence.readings[-1].ends, window_of(evidence))
    torn = [each.span for each in cut.left_out if each.span.outcome is SpanOutcome.OPEN]
    return max((sum(w.marker is not None for w in span.written.values()) for span in torn), default=0)


def _later(
    evidence: CutEvidence, markers: Mapping[PartitionId, Mapping[int, tuple[int, ...]]]
) -> dict[PartitionId, dict[int, int]]:
    """The first marker of each producer behind the end of each partition."""
    ends = evidence.readings[-1].ends
    return {
        key: {
            producer: min(behind)
            for producer, offsets in by_producer.items()
            if (behind := [each for each in offsets if each >= ends[key]])
        }
        for key, by_producer in markers.items()
    }


def _readable(application: Application) -> dict[str, str]:
    stages = {ORDERS: "payer", PAID: "clerk"}
    groups = {application.group(stage): name for stage, name in stages.items()}
    return groups | {topic: name for name, topic in application.names.items()}


def _faults(groups: Groups, application: Application, commit: int, cut: CutChoice) -> list[str]:
    names = {name: f"{topic}.r{next(_numbers)}" for name, topic in application.names.items()}
    request = RestoreRequest(
        selection=parse_selection(list(application.names.values())),
        renames=parse_renames([f"{topic}={names[name]}" for name, topic in application.names.items()]),
        commit=commit,
        offsets=OffsetsMode.PRESERVE,
        groups=ALL_GROUPS,
        cut=cut,
    )
    prepared = prepare_restore(groups.site.backup, groups.target.admin, request)
    assert run_restore(prepared, cluster=groups.target, runner=groups.site.spark).verified
    return list(audit(application.at(groups.target.bootstrap, names)).faults)


if __name__ == "__main__":
    for place, found in enumerate(make()):
        text = json.dumps(found, separators=(",", ":"))
        (Path(sys.argv[1]) / f"history-{place}.json").write_text(text.replace("},{", "},\n{") + "\n", encoding="utf-8")
