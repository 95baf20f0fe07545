"""The examination: all checks in order, prerequisites first; each within its time, independent of other checks'
failures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from offsite.doctor import brokers, machine, rights, spark_start, stored
from offsite.doctor.check import (
    CONFIGURATION,
    GENERAL,
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
    # id, title, check, exit code, needs, checks that must succeed first, seconds
    DoctorCheck("versions", "versions", machine.versions),
    DoctorCheck("limits", "limits of this machine", machine.limits),
    DoctorCheck("space", "free space", machine.space, limit_s=10),
    DoctorCheck("memory", "memory of this machine", machine.memory, limit_s=10),
    DoctorCheck("java", "Java", machine.java, CONFIGURATION),
    DoctorCheck("spark", "Spark", spark_start.start, GENERAL, _SPARK, ("java",), 150),
    DoctorCheck("kafka.config", "configuration of the cluster", brokers.configuration, CONFIGURATION, _CLUSTER),
    DoctorCheck("kafka.bootstrap", "brokers from here", brokers.bootstrap, KAFKA, _CLUSTER, ("kafka.config",)),
    DoctorCheck("kafka.advertised", "names that brokers advertise", brokers.advertised, KAFKA, _CLUSTER, _REACHED, 60),
    DoctorCheck("kafka.versions", "what brokers understand", brokers.understood, KAFKA, _CLUSTER, _REACHED, 60),
    DoctorCheck(
        "kafka.workers",
        "brokers from Spark workers",
        brokers.from_workers,
        KAFKA,
        _CLUSTER | _SPARK,
        (*_REACHED, "spark"),
        120,
    ),
    DoctorCheck("rights.topics", "rights on topics", rights.topics, RIGHTS, _CLUSTER, _REACHED, 60),
    DoctorCheck(
        "rights.groups", "rights on groups", rights.groups, RIGHTS, _CLUSTER, (*_REACHED, "kafka.advertised"), 60
    ),
    DoctorCheck("rights.log_dirs", "rights on sizes", rights.log_dirs, RIGHTS, _CLUSTER, _REACHED, 60),
    DoctorCheck("rights.transactions", "rights on transactions", rights.transactions, RIGHTS, _CLUSTER, _REACHED),
    DoctorCheck("rights.outcomes", "rights on outcomes of transactions", rights.outcomes, RIGHTS, _CLUSTER, _REACHED),
    DoctorCheck("store.repository", "repository", stored.repository, STORE, _STORE),
    DoctorCheck(
        "store.workers",
        "repository from Spark workers",
        spark_start.store,
        STORE,
        _STORE | _SPARK,
        ("store.repository", "spark"),
        120,
    ),
    DoctorCheck("store.rights", "rights in the store", stored.rights, STORE, _WRITES),
    DoctorCheck("store.create_only", "create-only puts", stored.create_only, STORE, _WRITES, ("store.rights",)),
    DoctorCheck("store.large", "large objects", stored.large, STORE, _WRITES, ("store.rights",), 120),
    DoctorCheck("clocks.store", "clock of the store", machine.store_clock, STORE, _WRITES, ("store.rights",)),
    DoctorCheck("clocks.cluster", "clocks of the brokers", machine.cluster_clock, KAFKA, _CLUSTER, _REACHED),
    DoctorCheck("metastore", "files of a metastore", stored.metastore_files, needs=_METASTORE, limit_s=60),
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
