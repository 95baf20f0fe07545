"""The subjects of the checks: the cluster, the store and Spark, each created on first use.

All clients give up early: a doctor reports a silent service, and does not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from offsite.doctor.check import Need, TooLateError, within
from offsite.engine.runner import Runner
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster, connect
from offsite.kafka.config import KafkaConfig
from offsite.kafka.net.routing import ConnectionPool, Router
from offsite.kafka.protocol.metadata import ClusterMetadata
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import decided
from offsite.model.selection import TopicSelection
from offsite.repository.layout import DOCTOR_PREFIX
from offsite.stores.open_store import open_store
from offsite.stores.store import OpenedStore

ANSWER_MS = 8_000
STORE_TRIES_S = 8.0
_CLOSE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorRequest:
    """What to examine; a missing part is skipped. `topics`: the topics whose rights are needed, None for all visible
    topics. `start_spark`: whether a JVM may be started. `write`: whether objects may be put into the store, and removed
    again. `metastore`: the folder of the backup files of command topics."""

    repo: str | None = None
    bootstrap: str | None = None
    kafka_config: Path | None = None
    spark: SparkChoice = field(default_factory=SparkChoice)
    topics: TopicSelection | None = None
    start_spark: bool = True
    write: bool = True
    metastore: Path | None = None

    @property
    def given(self) -> frozenset[Need]:
        has = {
            Need.CLUSTER: self.bootstrap is not None or self.kafka_config is not None,
            Need.REPOSITORY: self.repo is not None,
            Need.SPARK: self.start_spark,
            Need.WRITES: self.write,
            Need.METASTORE: self.metastore is not None,
        }
        return frozenset(need for need, is_given in has.items() if is_given)


class Parts:
    """The subjects of one examination. Tests replace `make_cluster` and `make_runner`."""

    def __init__(
        self,
        request: DoctorRequest,
        *,
        make_cluster: Callable[[], Cluster] | None = None,
        make_runner: Callable[[], Runner] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.request, self.clock = request, clock or SystemClock()
        self._make_cluster = make_cluster or (lambda: connect(request.bootstrap, request.kafka_config))
        self._make_runner = make_runner or (lambda: SparkRunner(request.spark, app_name="offsite-doctor"))
        self._pool = ConnectionPool()
        self._probes: list[str] = []

    @cached_property
    def cluster(self) -> Cluster:
        """Raises `BadKafkaConfig`. Sends no request to the cluster."""
        return self._make_cluster()

    @cached_property
    def config(self) -> KafkaConfig:
        """The given configuration with short timeouts."""
        config = self.cluster.config
        return replace(config, request_timeout_ms=min(config.request_timeout_ms, ANSWER_MS))

    @cached_property
    def router(self) -> Router:
        return Router(self.config, pool=self._pool)

    @cached_property
    def admin(self) -> ClusterAdmin:
        return ClusterAdmin(self.router, clock=self.clock)

    @cached_property
    def metadata(self) -> ClusterMetadata:
        """The cluster with all visible topics, and the allowed operations. Raises `KafkaUnavailable`."""
        return self.router.metadata(None, operations=True)

    @cached_property
    def store(self) -> OpenedStore:
        """Raises `BadRepositoryUrl`. Uses neither network nor disk."""
        return open_store(self.request.repo or "").retrying(retries=2, timeout_s=STORE_TRIES_S)

    @cached_property
    def runner(self) -> Runner:
        return self._make_runner()

    def probe_key(self) -> str:
        """The key of a temporary object; removed by `remove_probes`, or at the latest by a later doctor."""
        key = f"{DOCTOR_PREFIX}{random_id(16)}"
        self._probes.append(key)
        return key

    def remove_probes(self) -> None:
        """Remove all temporary objects. A failure is logged."""
        while self._probes:
            key = self._probes.pop()
            try:
                self.store.delete(key)
            except OffsiteError as error:
                decided("sweep_failed", key=key, why=f"a later offsite doctor removes it: {error.message}")

    def close(self) -> None:
        """End Spark, if started, and remove temporary objects. Takes seconds at most."""
        for name, end in (("probes", self.remove_probes), ("spark", self._end_spark)):
            try:
                within(end, limit_s=_CLOSE_S, name=name)
            except TooLateError:
                decided("sweep_failed", what=name, why=f"it did not end within {_CLOSE_S:.0f} s")
        self._pool.close()

    def _end_spark(self) -> None:
        if "runner" in self.__dict__:
            self.runner.close()
