"""As much of a site as a limited caller may see: other backups are absent, in every way in which a route can ask."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from offsite.kafka.cluster import Cluster
from offsite.metastore.status import MetastoreStatusReport
from offsite.model.errors import BackupNotFound
from offsite.overview.comparison import SourceComparison
from offsite.overview.declared import DeclaredList, DeclaredReport
from offsite.overview.several import RepositoryReading
from offsite.overview.status import Status
from offsite.repository.backup import Backup
from offsite.repository.layout import BackupLayout
from offsite.repository.repository import Repository
from offsite.serve.access_scope import AccessScope
from offsite.serve.site import SOURCE, Site


class ScopedSite(Site):
    """A view of `site` for one request of a limited caller."""

    def __init__(self, site: Site, scope: AccessScope, caller: str) -> None:
        vars(self).update(vars(site))
        self._site, self.scope, self.caller = site, scope, caller
        self.settings = replace(site.settings, metastore=None)
        self.shows_jobs_of = self._allows

    def repository(self) -> Repository:
        whole = self._site.repository()
        parts = {part.name: getattr(whole, part.name) for part in fields(whole)}
        return _ScopedRepository(**parts, scope=self.scope, name=self.settings.name)

    def cluster(self, name: str = SOURCE) -> Cluster:
        return self._site.cluster(name)

    def check_run(self, name: str) -> None:
        """A limited caller continues backups, and begins none: a new one could hold topics of others."""
        self.backup(name)

    def status(self) -> Status:
        return scoped_status(self._site.status(), self.scope, self.settings.name)

    def source(self, backup: str) -> SourceComparison:
        self.backup(backup)
        return self._site.source(backup)

    def declared(self) -> DeclaredList:
        """The declared backups whose backups are all within the limit. A Restore or a Schedule names others."""
        resources = self._site.declared().resources
        return DeclaredList(resources=tuple(resource for resource in resources if self._is_within(resource)))

    def metastores(self) -> MetastoreStatusReport:
        self.scope.check_whole("metastores belong to no backup", by=self.caller)
        return self._site.metastores()

    def _allows(self, backup: str) -> bool:
        return self.scope.allows_backup(self.settings.name, backup)

    def _is_within(self, resource: DeclaredReport) -> bool:
        return bool(resource.backups) and all(self._allows(backup.backup) for backup in resource.backups)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScopedRepository(Repository):
    """`name`: of the repository among several."""

    scope: AccessScope
    name: str

    def backups(self) -> tuple[str, ...]:
        return tuple(backup for backup in Repository.backups(self) if self.scope.allows_backup(self.name, backup))

    def backup(self, name: str) -> Backup:
        BackupLayout(backup=name).descriptor_key  # noqa: B018  # refuses what is no name, as for everybody
        if not self.scope.allows_backup(self.name, name):
            names = ", ".join(self.backups()) or "none"
            raise BackupNotFound(f"no backup {name!r} in {self.store.url} (there: {names})", hint="see: offsite list")
        return Repository.backup(self, name)


def scoped_status(status: Status, scope: AccessScope, repository: str) -> Status:
    """The status of the backups within the limit alone."""
    backups = tuple(backup for backup in status.backups if scope.allows_backup(repository, backup.backup))
    return replace(
        status,
        safe=bool(backups) and all(backup.safe for backup in backups),
        backups=backups,
        removed=tuple(removed for removed in status.removed if scope.allows_backup(repository, removed.backup)),
        notes=(),
    )


def scoped_reading(reading: RepositoryReading, scope: AccessScope) -> RepositoryReading | None:
    """The same of a repository among several; None: the caller has nothing there. A problem is told by its id: its text
    may name other backups."""
    if not scope.is_limited:
        return reading
    status = None if reading.status is None else scoped_status(reading.status, scope, reading.name)
    if status is None or not (status.backups or status.removed):
        return None
    problem = f"{reading.problem.partition(':')[0]}: it cannot be read now" if reading.problem else ""
    return replace(reading, status=status, problem=problem)
