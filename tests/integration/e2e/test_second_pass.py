"""Real brokers: transactions of others that are open over the early commit of a run, and end before the second pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from offsite.backup.options import BackupRequest
from offsite.backup.plan import make_replan
from offsite.backup.run import run_backup
from offsite.demo.data import read_topic
from offsite.model.options import CutChoice, OffsetsMode
from offsite.model.selection import ALL_GROUPS, parse_selection
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxInfo
from tests.inline_runner import InlineRunner
from tests.integration.e2e.group_site import Groups
from tests.integration.e2e.site import BACKUP, SLOTS
from tests.integration.e2e.test_cut_groups import Payments, behind_the_readings, committed, new_groups
from tests.integration.e2e.transacting import producer
from tests.integration.kafka.cluster import Cluster


@pytest.fixture
def groups(broker: SandboxInfo, second_broker: SandboxInfo, tmp_path: Path) -> Groups:
    return new_groups(Cluster(broker.bootstrap), Cluster(second_broker.bootstrap), tmp_path)


def commit(made: Producer) -> None:
    made.commit_transaction()


def abort(made: Producer) -> None:
    made.abort_transaction()


def stay(_: Producer) -> None:
    pass


@pytest.mark.parametrize(("end", "records"), [(commit, 1), (abort, 0), (stay, 0)])
@pytest.mark.parametrize("mode", [OffsetsMode.PRESERVE, OffsetsMode.TRANSLATE])
def test_a_transaction_over_the_early_commit(
    groups: Groups, monkeypatch: pytest.MonkeyPatch, end: Callable[[Producer], None], records: int, mode: OffsetsMode
) -> None:
    payments = Payments(groups.source)
    other = groups.source.make_topic()
    payments.pay()
    slow = producer(groups.source, f"slow-{payments.orders}")
    slow.begin_transaction()
    slow.produce(other, b"slow")
    slow.flush()

    def pay_and_delete() -> None:
        for _ in range(3):
            payments.pay()
        groups.site.delete_before(payments.orders, payments.done)

    behind_the_readings(monkeypatch, pay_and_delete)
    site = groups.site
    plan = groups.plan(payments.orders, payments.paid, other)
    real = make_replan(
        site.repository,
        groups.source.admin,
        BackupRequest(backup=BACKUP, selection=None, groups=ALL_GROUPS),
        slots=SLOTS,
    )
    calls: list[Any] = []

    def again(*arguments: Any) -> Any:
        if not calls:
            end(slow)
        calls.append(arguments)
        return real(*arguments)

    result = run_backup(
        plan, repository=site.repository, kafka=groups.source.config, runner=InlineRunner(), replan=again
    )
    assert (result.commits, result.no_cut) == (2, "")
    request = RestoreRequest(
        selection=parse_selection([payments.orders, payments.paid, other]),
        offsets=mode,
        groups=ALL_GROUPS,
        cut=CutChoice.CONSISTENT,
    )
    done = run_restore(
        prepare_restore(site.backup, groups.target.admin, request), cluster=groups.target, runner=InlineRunner()
    )
    there = read_topic(groups.target.bootstrap, other, isolation="read_committed").get(0, [])
    assert len(there) == records
    assert done.groups is not None
    paid = len(read_topic(groups.target.bootstrap, payments.paid, isolation="read_committed").get(0, []))
    if mode is OffsetsMode.PRESERVE:
        assert committed(groups.target, payments.group, payments.orders) == paid
    assert done.groups.complete, done.groups
