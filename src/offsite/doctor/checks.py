"""All checks, in the order of execution: prerequisites come first."""

from __future__ import annotations

from offsite.doctor import brokers, clocks, machine, metastore, rights, spark_start, stored
from offsite.doctor.check import CONFIGURATION, KAFKA, RIGHTS, STORE, DoctorCheck, Need
from offsite.doctor.parts import Parts

_CLUSTER = frozenset({Need.CLUSTER})
_STORE = frozenset({Need.REPOSITORY})
_WRITES = frozenset({Need.REPOSITORY, Need.WRITES})
_SPARK = frozenset({Need.SPARK})
_METASTORE = frozenset({Need.METASTORE})
_REACHED = ("kafka.bootstrap",)

CHECKS: tuple[DoctorCheck[Parts], ...] = (
    DoctorCheck(id="versions", title="versions", run=machine.versions),
    DoctorCheck(id="limits", title="limits of this machine", run=machine.limits),
    DoctorCheck(id="space", title="free space", run=machine.space, limit_s=10),
    DoctorCheck(id="memory", title="memory of this machine", run=machine.memory, limit_s=10),
    DoctorCheck(id="java", title="Java", run=machine.java, exit_code=CONFIGURATION),
    DoctorCheck(id="spark", title="Spark", run=spark_start.start, needs=_SPARK, after=("java",), limit_s=150),
    DoctorCheck(
        id="kafka.config",
        title="configuration of the cluster",
        run=brokers.configuration,
        needs=_CLUSTER,
        exit_code=CONFIGURATION,
    ),
    DoctorCheck(
        id="kafka.bootstrap",
        title="brokers from here",
        run=brokers.bootstrap,
        needs=_CLUSTER,
        after=("kafka.config",),
        exit_code=KAFKA,
    ),
    DoctorCheck(
        id="kafka.advertised",
        title="names that brokers advertise",
        run=brokers.advertised,
        needs=_CLUSTER,
        after=_REACHED,
        limit_s=60,
        exit_code=KAFKA,
    ),
    DoctorCheck(
        id="kafka.versions",
        title="what brokers understand",
        run=brokers.understood,
        needs=_CLUSTER,
        after=_REACHED,
        limit_s=60,
        exit_code=KAFKA,
    ),
    DoctorCheck(
        id="kafka.workers",
        title="brokers from Spark workers",
        run=brokers.from_workers,
        needs=_CLUSTER | _SPARK,
        after=(*_REACHED, "spark"),
        limit_s=120,
        exit_code=KAFKA,
    ),
    DoctorCheck(
        id="rights.topics",
        title="rights on topics",
        run=rights.topics,
        needs=_CLUSTER,
        after=_REACHED,
        limit_s=60,
        exit_code=RIGHTS,
    ),
    DoctorCheck(
        id="rights.groups",
        title="rights on groups",
        run=rights.groups,
        needs=_CLUSTER,
        after=(*_REACHED, "kafka.advertised"),
        limit_s=60,
        exit_code=RIGHTS,
    ),
    DoctorCheck(
        id="rights.log_dirs",
        title="rights on sizes",
        run=rights.log_dirs,
        needs=_CLUSTER,
        after=_REACHED,
        limit_s=60,
        exit_code=RIGHTS,
    ),
    DoctorCheck(
        id="rights.transactions",
        title="rights on transactions",
        run=rights.transactions,
        needs=_CLUSTER,
        after=_REACHED,
        exit_code=RIGHTS,
    ),
    DoctorCheck(
        id="rights.outcomes",
        title="rights on outcomes",
        run=rights.outcomes,
        needs=_CLUSTER,
        after=_REACHED,
        exit_code=RIGHTS,
    ),
    DoctorCheck(
        id="store.repository",
        title="repository",
        run=stored.repository,
        needs=_STORE,
        exit_code=STORE,
    ),
    DoctorCheck(
        id="store.workers",
        title="repository from Spark workers",
        run=spark_start.store,
        needs=_STORE | _SPARK,
        after=("store.repository", "spark"),
        limit_s=120,
        exit_code=STORE,
    ),
    DoctorCheck(id="store.rights", title="rights in the store", run=stored.rights, needs=_WRITES, exit_code=STORE),
    DoctorCheck(
        id="store.create_only",
        title="create-only puts",
        run=stored.create_only,
        needs=_WRITES,
        after=("store.rights",),
        exit_code=STORE,
    ),
    DoctorCheck(
        id="store.large",
        title="large objects",
        run=stored.large,
        needs=_WRITES,
        after=("store.rights",),
        limit_s=120,
        exit_code=STORE,
    ),
    DoctorCheck(
        id="clocks.store",
        title="clock of the store",
        run=clocks.of_store,
        needs=_WRITES,
        after=("store.rights",),
        exit_code=STORE,
    ),
    DoctorCheck(
        id="clocks.cluster",
        title="clocks of the brokers",
        run=clocks.of_cluster,
        needs=_CLUSTER,
        after=_REACHED,
        exit_code=KAFKA,
    ),
    DoctorCheck(id="metastore", title="files of a metastore", run=metastore.files, needs=_METASTORE, limit_s=60),
)
