"""A source, a target and a repository: backups and restores as a person makes them, through their rooms, no broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from offsite.backup.options import BackupRequest
from offsite.backup.plan import BackupPlan, plan_backup
from offsite.backup.run import BackupResult, PassResult, carry_out, make_backup, run_backup
from offsite.backup.source import MissingTopics
from offsite.engine.runner import Runner
from offsite.model.selection import ALL_GROUPS, GroupPatterns, parse_selection
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.restore.options import RestoreWords, parse_restore
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.run import RestoreResult, run_restore
from offsite.schemas.registry_client import RegistryAddress
from offsite.stores.posix_store import open_folder
from tests.fake_cluster.cluster import FakeCluster
from tests.fake_cluster.server import serving
from tests.inline_runner import InlineRunner

BACKUP = "nightly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """`source` is backed up into `repository`; what is restored goes into `target` unless it is said where."""

    source: FakeCluster
    target: FakeCluster
    repository: Repository
    runner: Runner = field(default_factory=InlineRunner)

    @property
    def backup(self) -> Backup:
        return self.repository.backup(BACKUP)

    def plan_backup(
        self,
        *topics: str,
        missing: MissingTopics = MissingTopics.FAIL,
        groups: GroupPatterns = ALL_GROUPS,
        history: bool = False,
        registry: str | None = None,
    ) -> BackupPlan:
        """Without topics the next run of the same backup."""
        request = BackupRequest(
            backup=BACKUP,
            selection=parse_selection(list(topics)) if topics else None,
            missing_topics=missing,
            groups=groups,
            group_history=history,
            registry=registry,
        )
        return plan_backup(self.repository, self.source.admin, request, slots=2)

    def back_up(self, *topics: str, **options: Any) -> BackupResult:
        plan = self.plan_backup(*topics, **options)
        return run_backup(plan, repository=self.repository, kafka=self.source.config, runner=self.runner)

    def carry_out(self, plan: BackupPlan, *, runner: Runner | None = None, **options: Any) -> PassResult:
        """Carry out a plan as a run that follows does, with the options of `carry_out`."""
        runner = runner or self.runner
        backup = make_backup(self.repository, plan, runner)
        kafka = self.source.config
        return carry_out(plan, backup, repository=self.repository, kafka=kafka, runner=runner, **options)

    def plan_restore(
        self, *, into: FakeCluster | None = None, registry: RegistryAddress | None = None, **words: Any
    ) -> PlannedRestore:
        """`words` are those of `RestoreWords`; all topics unless they say which."""
        request = parse_restore(RestoreWords(**{"topics": ["*"], **words}))
        return prepare_restore(self.backup, (into or self.target).admin, request, registry=registry)

    def restore(self, *, into: FakeCluster | None = None, verify: bool = True, **words: Any) -> RestoreResult:
        cluster = into or self.target
        planned = self.plan_restore(into=cluster, **words)
        return run_restore(planned, cluster=cluster.connected, runner=self.runner, verify=verify)


@contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    with serving("source") as source, serving("target") as target:
        yield Site(source=source, target=target, repository=Repository.init(open_folder(folder / "repository")))
