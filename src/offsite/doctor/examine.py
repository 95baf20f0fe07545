"""The examination: all checks in order, prerequisites first; each within its time, independent of other checks'
failures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from offsite.doctor import brokers, machine, rights, spark_start, stored
from offsite.doctor.check import (
    CONFIGURATION,
    KAFKA,
    RIGHTS,
    STORE,
    CheckResult,
    CheckVerdict,
    DoctorCheck,
    Need,
    NotMeasurable,
    TooLateError,
    bounded,
    failed,
    from_error,
    skipped,
    within,
)
from offsite.doctor.parts import DoctorRequest, Parts
from offsite.model import journal
from offsite.model.errors import Bug, OffsiteError

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
        run=machine.store_clock,
        needs=_WRITES,
        after=("store.rights",),
        exit_code=STORE,
    ),
    DoctorCheck(
        id="clocks.cluster",
        title="clocks of the brokers",
        run=machine.cluster_clock,
        needs=_CLUSTER,
        after=_REACHED,
        exit_code=KAFKA,
    ),
    DoctorCheck(id="metastore", title="files of a metastore", run=stored.metastore_files, needs=_METASTORE, limit_s=60),
)


_LACKING = {
    Need.CLUSTER: ("no cluster was given", "give --bootstrap HOST:PORT or --kafka-config FILE"),
    Need.REPOSITORY: ("no repository was given", "give --repo"),
    Need.SPARK: ("Spark is not started here", "run on the command line, without --no-spark: offsite doctor"),
    Need.METASTORE: ("no folder of a metastore was given", "give --metastore FOLDER, if this is a node of ksqlDB"),
    Need.WRITES: ("this page writes nothing", "run on the command line: offsite doctor"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """One check: `said` is the observation, `cure` the remedy (empty if nothing is to be done)."""

    id: str
    verdict: CheckVerdict
    said: str
    cure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All checks, in the order of execution. `ok`: no check failed. `exit_code`: 0, or that of the first failed check
    (2 configuration, 10 no repository, 15 Kafka, 16 store, 17 rights, 1 else)."""

    ok: bool
    checks: tuple[CheckReport, ...]
    exit_code: int


OnReport = Callable[[str, CheckReport], None]
"""Receives title and report at the end of each check."""


def examine(
    request: DoctorRequest,
    *,
    on_report: OnReport | None = None,
    parts: Parts | None = None,
    checks: tuple[DoctorCheck[Parts], ...] = CHECKS,
) -> Examination:
    """Run all checks. Raises nothing: problems become results. Changes nothing on the cluster, and removes its objects
    from the store."""
    examined = parts or Parts(request)
    results: dict[str, CheckResult] = {}
    reports: list[CheckReport] = []
    try:
        for check in checks:
            results[check.id] = _finding(check, examined, results)
            reports.append(_report(check, results[check.id]))
            if on_report is not None:
                on_report(check.title, reports[-1])
    finally:
        examined.close()
    return _examination(checks, results, tuple(reports))


def _finding(check: DoctorCheck[Parts], parts: Parts, before: Mapping[str, CheckResult]) -> CheckResult:
    for need in sorted(check.needs - parts.request.given, key=list(Need).index):
        said, cure = _LACKING[need]
        return skipped(said, cure=cure)
    for other in check.after:
        if before[other].verdict in {CheckVerdict.FAILED, CheckVerdict.SKIPPED}:
            return skipped(f"{other} must pass first, but is {before[other].verdict}", cure=before[other].cure)
    return _made(check, parts)


def _made(check: DoctorCheck[Parts], parts: Parts) -> CheckResult:
    try:
        return within(lambda: check.run(parts), limit_s=check.limit_s, name=check.id)
    except NotMeasurable as reason:
        return skipped(reason.said, cure=reason.cure)
    except TooLateError:
        said = f"it did not end within {check.limit_s:.0f} s"
        return failed(
            said, cure="check whether the tested system is overloaded or unreachable, then run offsite doctor again"
        )
    except OffsiteError as error:
        return from_error(error)
    except Exception as error:  # noqa: BLE001  # a bug becomes the check's result
        journal.failed("doctor", check=check.id, why=journal.safe_line(error), trace=journal.safe_trace(error))
        said = f"{Bug.id}: an error in offsite: {journal.safe_line(error)}"
        return failed(said, cure="the log has the details: --log-file FILE", exit_code=Bug.exit_code)


def _report(check: DoctorCheck[Parts], result: CheckResult) -> CheckReport:
    return CheckReport(id=check.id, verdict=result.verdict, said=bounded(result.said), cure=bounded(result.cure))


def _examination(
    checks: tuple[DoctorCheck[Parts], ...], results: Mapping[str, CheckResult], reports: tuple[CheckReport, ...]
) -> Examination:
    codes = [
        check.exit_code if results[check.id].exit_code is None else results[check.id].exit_code or 0
        for check in checks
        if results[check.id].verdict is CheckVerdict.FAILED
    ]
    return Examination(ok=not codes, checks=reports, exit_code=codes[0] if codes else 0)
