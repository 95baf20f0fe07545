"""The means of a coordinator: repository and clusters. Keeps no state that matters.

`StateCache` keeps the newest state of every backup: folding a state takes time in proportion to the backup, and every
page shows the state. A cached state is the newest one until the next commit exists, which takes one request to the
store. So a reader sees the same state as a new reader, unless a formerly read object was damaged since. The overview
reports such damage, because the overview reads everything again; plans and changes do not use the cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from offsite.checkpoint.options import ZeebeWords, parse_zeebe, zeebe_participants
from offsite.checkpoint.participants import Participants
from offsite.engine.settings import SparkChoice
from offsite.jobs.workers import Workers
from offsite.kafka.cluster import Cluster, connect
from offsite.metastore.status import MetastoreStatusReport, metastore_status
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption, DamagedObject, OffsiteError
from offsite.overview.backup_history import HistoryReader
from offsite.overview.comparison import SourceComparison
from offsite.overview.declared import DeclaredList, read_declared_status
from offsite.overview.source_look import impatient
from offsite.overview.source_watch import SourceWatch
from offsite.overview.status import Status, read_status
from offsite.repository.backup import Backup
from offsite.repository.catalog import Catalog
from offsite.repository.commit import StoredCommit
from offsite.repository.commit_log import CommitLog
from offsite.repository.repository import Repository
from offsite.repository.state import BackupState
from offsite.serve.access_scope import NO_LIMIT
from offsite.serve.address import base_of
from offsite.stores.open_store import open_store
from offsite.stores.store import ObjectInfo

KeptT = TypeVar("KeptT")
_Key: TypeAlias = tuple[str, str, int]
_Heads: TypeAlias = tuple[ObjectInfo | None, ObjectInfo | None]
_CACHED_MAX = 4
"""Cached commits, and cached earlier states: a preview of retention reads one or two of each."""

T = TypeVar("T")
SOURCE = "source"
"""The name of the cluster that is backed up."""
INTERVAL_S = 30.0
_FRESH_S = 1.0
_OLDEST_S = 10.0


@dataclass(slots=True)
class StateCache:
    """The cache of one repository, for several threads: of threads with the same need, one thread folds the state."""

    _newest: dict[str, BackupState] = field(default_factory=dict)
    _earlier: OrderedDict[tuple[str, str, int], BackupState] = field(default_factory=OrderedDict)
    _commits: OrderedDict[tuple[str, str, int], StoredCommit | None] = field(default_factory=OrderedDict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _folding: threading.RLock = field(default_factory=threading.RLock)
    _heads: dict[str, _Heads] = field(default_factory=dict)

    def of(self, backup: Backup) -> Backup:
        """Return `backup` with the cached newest state, if still the newest."""
        return _CachedBackup(store=backup.store, descriptor=backup.descriptor, on_damage=backup.on_damage, states=self)

    def newest(self, catalog: Catalog) -> BackupState:
        """Raises the errors of `Catalog.sound_state`."""
        name = catalog.log.layout.backup
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            state = self._newest.get(name)
            if state is None or self._heads.get(name) != self._head(catalog.log, state.seq):
                state = self._newest[name] = Catalog.sound_state(catalog)
                newest, following = self._head(catalog.log, state.seq)
                self._heads[name] = (newest, following if state.unreadable else None)
            return state

    def _head(self, log: CommitLog, seq: int) -> _Heads:
        """Return commit `seq` and the next commit as known to the store: a backup may have been restored from a copy,
        or created again. An unreadable next commit counts as absent while unchanged."""
        return log.store.head(log.layout.commit_key(seq)) if seq else None, _head_of(log, seq + 1)

    def earlier(self, name: str, upto: int, read: Callable[[], BackupState]) -> BackupState:
        """Return the state after commit `upto`, which no later commit changes. One state is folded at a time: every
        state is as large as the backup, and a watching caller may request as many as there are commits. Raises the
        errors of `read`."""

        def folded() -> BackupState:
            with self._folding:
                return read()

        return self._cached(self._earlier, name, upto, folded)

    def commit(self, name: str, seq: int, read: Callable[[], StoredCommit | None]) -> StoredCommit | None:
        """Return commit `seq`; None if absent (absence is not cached)."""
        return self._cached(self._commits, name, seq, read)

    def _cached(self, cache: OrderedDict[_Key, KeptT], name: str, seq: int, read: Callable[[], KeptT]) -> KeptT:
        """Cache by the newest known state: a restored backup may have other commits with the same numbers."""
        newest = self._newest.get(name)
        if newest is None or newest.seq < seq:
            return read()
        key = (name, newest.head_hash, seq)
        with self._lock:
            if key in cache:
                return cache[key]
        value = read()
        if value is not None:
            with self._lock:
                cache[key] = value
                while len(cache) > _CACHED_MAX:
                    cache.popitem(last=False)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedLog(CommitLog):
    states: StateCache

    def get(self, seq: int) -> StoredCommit | None:
        return self.states.commit(self.layout.backup, seq, lambda: CommitLog.get(self, seq))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedCatalog(Catalog):
    states: StateCache

    def sound_state(self) -> BackupState:
        return self.states.newest(self)

    def state(self, *, upto: int | None = None, near: BackupState | None = None) -> BackupState:
        if upto is None:
            return Catalog.state(self)
        return self.states.earlier(self.log.layout.backup, upto, lambda: Catalog.state(self, upto=upto, near=near))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachedBackup(Backup):
    states: StateCache

    @property
    def log(self) -> CommitLog:
        return _CachedLog(store=self.store, layout=self.layout, states=self.states)

    @property
    def catalog(self) -> Catalog:
        return _CachedCatalog(log=self.log, states=self.states)

    def state(self) -> BackupState:
        newest = self.catalog.sound_state()
        return Backup.state(self) if newest.unreadable else newest


def _head_of(log: CommitLog, seq: int) -> ObjectInfo | None:
    """None also if another kind of object lies at the key; a read reports the damage."""
    try:
        return log.store.head(log.layout.commit_key(seq))
    except DamagedObject:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddress:
    """The connection of a cluster, as needed by the command line."""

    bootstrap: str | None = None
    kafka_config: Path | None = None

    @property
    def is_named(self) -> bool:
        return self.bootstrap is not None or self.kafka_config is not None

    @property
    def environment(self) -> Mapping[str, str]:
        variables = {"OFFSITE_BOOTSTRAP": self.bootstrap, "OFFSITE_KAFKA_CONFIG": self.kafka_config}
        return {name: str(value) for name, value in variables.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """`backup`: subject of the management API of checkpoints; None: the only backup of the repository. `addresses`:
    clusters that may be read and restored into, by name. `records`: allowed places of restore records: a caller can
    name no others."""

    repo: str
    backup: str | None = None
    addresses: Mapping[str, ClusterAddress] = field(default_factory=dict)
    records: tuple[str, ...] = ()
    spark: SparkChoice = field(default_factory=SparkChoice)
    read_only: bool = False
    clusters: ZeebeWords = field(default_factory=ZeebeWords)
    """Zeebe clusters that take part in every checkpoint of this coordinator."""
    metastore: Path | None = None
    """The folder of a metastore's backup files on the local machine; None: none."""
    interval_s: float = INTERVAL_S
    """The pause between two looks at the source."""
    name: str = ""
    """The name of this repository among several of a coordinator; empty: it is the only one."""

    @property
    def base(self) -> str:
        """The start of all addresses of this repository, of its pages and its API."""
        return base_of(self.name)


class Site:
    """The repository and the clusters, opened on first use."""

    scope = NO_LIMIT
    """What a caller is limited to."""
    caller = ""
    """The name of the caller, where there is a limit."""

    def __init__(self, settings: SiteSettings, clock: Clock | None = None, *, workers: Workers | None = None) -> None:
        """`workers`: those of the coordinator, which several sites share; None: of its own."""
        self.settings, self.clock = settings, clock or SystemClock()
        self.workers = workers or Workers(environment={})
        self._repository: Repository | None = None
        self._states = StateCache()
        self.histories = HistoryReader()
        self.examining = threading.Lock()
        """Held by the only examination of the doctor."""
        self._status = CachedValue(lambda: read_status(self.repository()), self.clock)
        self._metastores = CachedValue(self._read_metastores, self.clock)
        self.watch: SourceWatch | None = self._make_watch()
        """Compares the backups with the living source; None without a source."""

    def _make_watch(self) -> SourceWatch | None:
        if SOURCE not in self.settings.addresses:
            return None
        return SourceWatch(
            open_cluster=lambda: impatient(self.cluster()),
            list_backups=lambda: self.repository().backups(),
            open_backup=self.cached_backup,
            clock=self.clock,
            interval_s=self.settings.interval_s,
        )

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of a job in this repository: arguments are visible to every user of the machine."""
        return {"OFFSITE_REPO": self.settings.repo, **self.settings.spark.environment()}

    def address(self, path: str) -> str:
        """Return the address of a page or an object of the API. `path` starts with `/`, and is quoted."""
        return f"{self.settings.base}{path}"

    def repository(self) -> Repository:
        """Open the repository. Raises `RepositoryNotFound`, `FormatTooNew`, and the errors of the store."""
        if self._repository is None:
            self._repository = Repository.open(open_store(self.settings.repo).impatient)
        return self._repository

    def backup(self, name: str) -> Backup:
        """Open a backup. Raises `BackupNotFound`, and the errors of `repository`."""
        return self.repository().backup(name)

    shows_jobs_of: Callable[[str], bool] | None = None
    """Whether the caller may see jobs of a backup; None: of all."""

    def check_run(self, name: str) -> None:
        """Return if a run of that backup may begin, also the first."""

    def check_records_place(self, place: str) -> str:
        """Return the place of records. Raises `BadOption` for a place outside this coordinator's settings: the
        coordinator would write there."""
        if place not in self.settings.records:
            raise BadOption(
                f"this coordinator does not keep records of restores in {place[:200]!r}",
                hint=f"it may use: {', '.join(self.settings.records) or 'none'} (offsite serve --records)",
            )
        return place

    def cached_backup(self, name: str) -> Backup:
        """Open a backup for reading, with the cached state (see `StateCache`)."""
        return self._states.of(self.backup(name))

    def status(self) -> Status:
        """Return the status, some seconds old at most, for any number of callers, beside the newest look at the source.
        Waits for no cluster. Raises the errors of `repository`."""
        status = self._status.get()
        return status if self.watch is None else status.beside(self.watch.comparison)

    def source(self, backup: str) -> SourceComparison:
        """Return the newest comparison of a backup with its source. Raises `BadOption` without a source."""
        if self.watch is None:
            raise BadOption("this coordinator knows no source", hint="start it with --bootstrap HOST:PORT")
        return self.watch.comparison(backup)

    def declared(self) -> DeclaredList:
        """Return the status of declared resources. Raises the errors of the store."""
        return read_declared_status(self.repository().store)

    def metastores(self) -> MetastoreStatusReport:
        """Return the status of metastores, some seconds old at most. Raises `BadOption` without a configured folder."""
        return self._metastores.get()

    def _read_metastores(self) -> MetastoreStatusReport:
        if self.settings.metastore is None:
            raise BadOption("this coordinator knows no folder of a metastore", hint="start it with --metastore FOLDER")
        return metastore_status(self.settings.metastore)

    def cluster_address(self, name: str = SOURCE) -> ClusterAddress:
        """Raises `BadOption` for an unknown cluster."""
        if (address := self.settings.addresses.get(name)) is not None and address.is_named:
            return address
        names = ", ".join(sorted(self.settings.addresses)) or "none"
        option = "--bootstrap" if name == SOURCE else f"--target {name}=HOST:PORT"
        raise BadOption(
            f"this coordinator knows no cluster {name[:60]!r} (known: {names})", hint=f"start it with {option}"
        )

    def cluster_options(self, name: str) -> list[str]:
        """Return the options of a typed command for the repository and a cluster. Raises the errors of
        `cluster_address`."""
        place = self.cluster_address(name)
        named = {"repo": self.settings.repo, "bootstrap": place.bootstrap, "kafka-config": place.kafka_config}
        return [f"--{option}={value}" for option, value in named.items() if value is not None]

    def cluster(self, name: str = SOURCE) -> Cluster:
        """Raises the errors of `cluster_address`, and `BadKafkaConfig`. Sends no request to the cluster."""
        place = self.cluster_address(name)
        return connect(place.bootstrap, place.kafka_config)

    def participants(self, backup: Backup) -> Participants:
        """Return the participants in the checkpoints of a backup besides Kafka. Raises `BadOption`."""
        return zeebe_participants(parse_zeebe(self.settings.clusters), lambda: backup)

    def take_arguments(self) -> Mapping[str, object]:
        """The arguments of a command that takes a checkpoint with these participants."""
        return dict(self.settings.clusters)


class CachedValue(Generic[T]):
    """A value with many readers, read from its source by one reader at a time, and for at most a tenth of the time:
    so the value is at most a second old if reading takes a tenth of a second, and at most `_OLDEST_S` in any case.
    During a read, other readers get the former value, unless the former value is too old. An error is raised to all
    readers."""

    def __init__(self, read: Callable[[], T], clock: Clock) -> None:
        self._read, self._clock = read, clock
        self._lock = threading.Lock()
        self._until_s = self._too_old_s = float("-inf")
        self._value: T | None = None
        self._error: OffsiteError | None = None

    def get(self) -> T:
        now_s = self._clock.monotonic_s()
        if now_s >= self._until_s and self._lock.acquire(blocking=now_s >= self._too_old_s):
            try:
                if self._clock.monotonic_s() >= self._until_s:
                    self._renew()
            finally:
                self._lock.release()
        if self._error is not None or self._value is None:
            raise self._error or BadOption("nothing was read")
        return self._value

    def _renew(self) -> None:
        began_s = self._clock.monotonic_s()
        try:
            self._value, self._error = self._read(), None
        except OffsiteError as error:
            self._error = error
        ended_s = self._clock.monotonic_s()
        self._until_s = ended_s + min(max(_FRESH_S, 10 * (ended_s - began_s)), _OLDEST_S / 2)
        self._too_old_s = ended_s + _OLDEST_S
