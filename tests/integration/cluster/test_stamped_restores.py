"""Checkpoints of applications without transactions, restored to a second cluster: with stamps none is inconsistent;
without them the same check fails in the same run."""

from __future__ import annotations

import itertools
import os
import random
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from offsite.backup.options import BackupRequest
from offsite.backup.plan import plan_backup
from offsite.backup.run import run_backup
from offsite.checkpoint.request import request_checkpoint
from offsite.checkpoint.serve import CheckpointServer
from offsite.checkpoint.status import Checkpoints
from offsite.kafka.cluster import Cluster as Ends
from offsite.kafka.cluster import connect
from offsite.model.options import OffsetsMode, StampForm
from offsite.model.selection import ALL_GROUPS, parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.repository.backup import Backup
from offsite.repository.checkpoint_records import Stamping
from offsite.repository.snapshots.commit_cut import get_commit_cut
from offsite.restore.plan import prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.run import run_restore
from offsite.sandbox import SandboxInfo
from tests.inline_runner import InlineRunner
from tests.integration.cluster.relay import Found, Relay, audit, running
from tests.integration.cluster.slow_link import slow_link
from tests.integration.cluster.trial import Trial
from tests.integration.kafka.cluster import Cluster

CHECKPOINTS = int(os.environ.get("OFFSITE_STAMPED_CHECKPOINTS", "2"))
MANY = 10
"""From so many on each form is held against an application without stamps; below, one is."""
CHECKPOINTS_MAX = 40 + CHECKPOINTS
"""So many are taken until one of the application without stamps is broken."""
FAR_S = 0.04
_numbers = itertools.count()
pytestmark = pytest.mark.timeout(240 + 20 * CHECKPOINTS)


@pytest.mark.soak
@pytest.mark.parametrize("form", StampForm)
def test_no_checkpoint_of_participants_is_inconsistent(
    trial: Trial, broker: SandboxInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: StampForm
) -> None:
    """One of the brokers is far from whoever takes the checkpoints, so its ends are read later than the others'."""
    cluster = own_connections(trial, 1 + list(StampForm).index(form))
    far = int(trial.sandbox.brokers[-1].bootstrap.rpartition(":")[2])
    number = next(_numbers)
    stamping = Relay(bootstrap=trial.cluster.bootstrap, name=f"{form}-{number}", form=form.value)
    plain = Relay(bootstrap=trial.cluster.bootstrap, name=f"plain-{number}", form="")
    for each in (stamping, plain):
        each.make_topics()
    is_held_against = form is StampForm.ACKS or CHECKPOINTS >= MANY
    rng, broken, taken, failed = random.Random(number), 0, 0, 0
    target = Cluster(broker.bootstrap)
    with (
        slow_link(monkeypatch, far, delay_s=FAR_S),
        running(stamping, tmp_path, seed=number) as crew,
        running(plain, tmp_path, seed=number) if is_held_against else nullcontext(),
    ):
        first_backup(trial, cluster, stamping, plain)
        backup = trial.repository.backup("relay")
        while taken < CHECKPOINTS or (is_held_against and not broken and taken < CHECKPOINTS_MAX):
            if taken % 3 == 1:
                crew.disturb()
            time.sleep(rng.uniform(0, 0.3))
            checkpoint = take(trial, cluster, backup, stamping, form)
            crew.check()
            commit = completed(backup, checkpoint)
            if not commit:
                failed += 1
                assert failed <= 2 + taken // 2, Checkpoints(backup).report(checkpoint).failure_reason
                continue
            taken += 1
            known = classes(backup, commit)
            assert {known[each] for each in stamping.topics} <= {"participant", "unchanged"}, known
            found = restored(backup, commit, stamping, target)
            assert found.is_consistent, (taken, commit, found.orphans[:5], found.lost[:5])
            if is_held_against:
                broken += not restored(backup, commit, plain, target).is_consistent
    print(f"{form}: {taken} restored, {failed} failed, {broken} broken without stamps")  # noqa: T201  # shown with -rP
    assert broken or not is_held_against, "nothing broke without stamps: this tests nothing"


def own_connections(trial: Trial, first: int) -> Ends:
    """To the same brokers, and none that others have opened: they are named beginning with the `first`."""
    brokers = [each.bootstrap for each in trial.sandbox.brokers]
    return connect(",".join(brokers[first:] + brokers[:first]), None)


def first_backup(trial: Trial, cluster: Ends, *relays: Relay) -> None:
    topics = [topic for each in relays for topic in each.topics]
    request = BackupRequest(backup="relay", selection=parse_selection(topics))
    plan = plan_backup(trial.repository, cluster.admin, request, slots=2)
    run_backup(plan, repository=trial.repository, kafka=cluster.config, runner=InlineRunner())


def take(trial: Trial, cluster: Ends, backup: Backup, relay: Relay, form: StampForm) -> int:
    stamping = Stamping(form=form, topics=relay.topics, control_topic=relay.control_topic)
    asked = request_checkpoint(backup, stamping=stamping)
    server = CheckpointServer(
        repository=trial.repository,
        backup=backup,
        cluster=cluster,
        runner=InlineRunner(),
        stamping=stamping,
    )
    assert server.serve()
    return asked.id


def completed(backup: Backup, checkpoint: int) -> int:
    report = Checkpoints(backup).report(checkpoint)
    return report.commit if report.status == "completed" else 0


def classes(backup: Backup, commit: int) -> dict[str, str]:
    ref = backup.state_at(commit).cut
    assert ref is not None
    return dict(get_commit_cut(backup.store, ref).classes)


def restored(backup: Backup, commit: int, relay: Relay, target: Cluster) -> Found:
    names = {topic: f"{topic}.r{next(_numbers)}" for topic in relay.topics}
    request = RestoreRequest(
        selection=parse_selection(list(names)),
        renames=parse_renames([f"{old}={new}" for old, new in names.items()]),
        commit=commit,
        offsets=OffsetsMode.PRESERVE,
        groups=ALL_GROUPS,
    )
    prepared = prepare_restore(backup, target.admin, request)
    cluster = connect(target.bootstrap, None)
    assert run_restore(prepared, cluster=cluster, runner=InlineRunner()).verified
    try:
        return audit(relay, target.bootstrap, names)
    finally:
        target.admin.delete_topics(list(names.values()))
