"""`offsite verify`: checks a backup, and compares a cluster with the backup."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import Against, BackupName, KafkaConfigFile, Output, Records, Repo, takes
from offsite.cli.output import EXIT_PARTIAL, OutputFormat
from offsite.cli.telling import NoticeOptions, Telling, telling
from offsite.cli.views.verify import render_verification
from offsite.cli.wiring import SparkOptions, connect, open_repository, spark
from offsite.model.errors import BadOption, Damaged, DamagedCommit, FormatTooNew
from offsite.model.head import Head, parse_head
from offsite.model.options import Isolation
from offsite.model.selection import parse_selection, split_all

if TYPE_CHECKING:
    from offsite.engine.runner import Runner
    from offsite.repository.backup import Backup
    from offsite.repository.repository import Repository
    from offsite.restore.compare.run import CompareRequest, CompareResult
    from offsite.upkeep.verification.leftovers import Leftovers
    from offsite.upkeep.verification.run import VerifyResult

Restore = Annotated[
    str | None,
    typer.Option("--restore", help="With --against: compare the records that this restore wrote. Give its id."),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topics", help="With --against: topics to compare [default: all].", callback=split_all),
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", help="With --against: topics to leave out.", callback=split_all)
]
Commit = Annotated[
    int | None, typer.Option("--commit", help="With --against: as of this commit [default: the newest].")
]
IsolationLevel = Annotated[
    Isolation, typer.Option("--isolation", help="With --against: whether records of aborted transactions count.")
]
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="With --against: records written or deleted on the cluster since then also count as differences.",
    ),
]

ExpectHead = Annotated[
    str | None,
    typer.Option(
        "--expect-head",
        metavar="COMMIT:HASH",
        help="A head printed by backup run, status or verify: it must still be part of the backup.",
    ),
]
AcceptHead = Annotated[
    bool,
    typer.Option(
        "--accept-head",
        help="Forget the last head seen on this machine. Use it when missing commits will not come back.",
    ),
]
ListLeftovers = Annotated[
    bool, typer.Option("--leftovers", help="Also list leftovers of runs that never ended. Deletes nothing.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Options of the command, as typed: a field per option."""

    repo: Repo
    backup: BackupName
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte again and compare hashes and CRCs.")] = False
    against: Against = None
    restore: Restore = None
    records: Records = None
    topics: Topics = None
    exclude: Exclude = None
    commit: Commit = None
    isolation: IsolationLevel = Isolation.DEFAULT
    exact: Exact = False
    kafka_config: KafkaConfigFile = None
    leftovers: ListLeftovers = False
    expect_head: ExpectHead = None
    accept_head: AcceptHead = False


@takes(VerifyOptions, SparkOptions, NoticeOptions)
def verify(
    options: VerifyOptions, engine: SparkOptions, notices: NoticeOptions, output: Output = OutputFormat.TABLE
) -> None:
    """Check a backup, and with --against a cluster. Exit code 13 when something is damaged or different.

    Damage is named; the rest stays restorable. A commit seen before and missing now counts as damage. Differences are
    named by topic, partition and offset. Exit code 3: no difference is known, but nothing could be compared, or
    partitions could not be read.
    """
    with telling(notices, command="verify", repo=options.repo, backup=options.backup) as news:
        _verify(options, engine, news, output)


def _verify(options: VerifyOptions, engine: SparkOptions, news: Telling, output: OutputFormat) -> None:
    from offsite.upkeep.verification.last_checks import remember_check

    repository, request = open_repository(options.repo, records=options.records), _request(options)
    opened, expected = repository.backup(options.backup), _expected_head(options)
    result = _check(opened, request, options, engine)
    if result.head_commit or not result.damaged_commits:
        result = result.and_missing(_missing_heads(repository, opened, expected, accept=options.accept_head))
    result = replace(result, leftovers=_leftovers(repository, opened, result, listed=options.leftovers))
    remember_check(opened, result)
    news.emit(result, output=output, render=partial(render_verification, listed=options.leftovers))
    if result.damaged_commits:
        first, hint = result.damaged_commits[0], _what_is_left(result)
        raise (FormatTooNew if first.is_newer else DamagedCommit)(first.problem, hint=hint)
    if result.verdict != "ok":
        raise typer.Exit(EXIT_PARTIAL if result.verdict == "unknown" else Damaged.exit_code)


def _request(options: VerifyOptions) -> CompareRequest | None:
    from offsite.restore.compare.run import CompareRequest

    if options.against is None:
        if options.restore or options.topics or options.exclude or options.commit or options.exact:
            raise BadOption("no cluster to compare with is named", hint="name its brokers: --against host:9092")
        return None
    if options.restore is not None and options.commit is not None:
        raise BadOption("--restore and --commit both name the expected records", hint="give one of them")
    return CompareRequest(
        selection=parse_selection(options.topics or ["*"], options.exclude or ()),
        restore=options.restore,
        commit=options.commit,
        read_committed=options.isolation == Isolation.READ_COMMITTED,
        exact=options.exact,
    )


def _what_is_left(result: VerifyResult) -> str:
    is_newer = result.damaged_commits[0].is_newer
    back = "upgrade offsite" if is_newer else "bring the object back from the store's versions or from a copy"
    point = f"--commit {result.head_commit}, or an earlier one"
    return f"{back}; until then use another restore point: {point}" if result.head_commit else back


def _expected_head(options: VerifyOptions) -> Head | None:
    return None if options.expect_head is None else parse_head(options.expect_head)


def _missing_heads(repository: Repository, opened: Backup, expected: Head | None, *, accept: bool) -> list[str]:
    """Return why heads seen before, by the caller or on this machine, are not part of the backup."""
    from offsite.repository.heads import RememberedHead, head_of, why_missing
    from offsite.upkeep.retention.missing_points import note_look

    state = opened.readable_state()
    seen_head = RememberedHead(repository=repository, backup=state.backup)
    if accept:
        seen_head.remember(head_of(state))
        note_look(opened, state)
    unmet = "" if expected is None else why_missing(opened, state, expected)
    return list(dict.fromkeys(filter(None, (unmet, seen_head.problem(opened, state)))))


def _leftovers(repository: Repository, opened: Backup, result: VerifyResult, *, listed: bool) -> Leftovers | None:
    """Find leftovers; None with unreadable commits, because leftovers are unknown then."""
    from offsite.archives.import_staging import find_staging_copies
    from offsite.repository.leftovers import LEFTOVER_AFTER_MS
    from offsite.upkeep.verification.leftovers import find_leftovers

    if result.damaged_commits:
        return None
    staged = find_staging_copies(repository, quiet_for_ms=LEFTOVER_AFTER_MS)
    return find_leftovers(repository, opened, staged=staged, listed=listed)


def _check(
    opened: Backup, request: CompareRequest | None, options: VerifyOptions, engine: SparkOptions
) -> VerifyResult:
    """Check the backup. A damaged backup is compared with nothing."""
    from offsite.upkeep.verification.run import verify_quick

    if request is None and not options.deep:
        return verify_quick(opened)
    first = "offsite.upkeep.verification.segments" if options.deep else "offsite.restore.compare.partition"
    with spark(engine.choice(), preload=first) as runner:
        result = _deep(opened, runner) if options.deep else verify_quick(opened)
        if request is None or not result.ok:
            return result
        against = _compare(opened, request, options, runner)
        return replace(result, ok=against.verified is True, against=against)


def _deep(opened: Backup, runner: Runner) -> VerifyResult:
    from offsite.cli.progress import progress
    from offsite.upkeep.verification.run import verify_deep

    with progress("verify", total_bytes=_raw_bytes(opened)) as on_progress:
        return verify_deep(opened, runner, on_progress=on_progress)


def _raw_bytes(opened: Backup) -> int:
    try:
        return sum(segment.raw_bytes for segment in opened.readable_state().stored_segments())
    except DamagedCommit:  # nothing is left to read; the check tells
        return 0


def _compare(opened: Backup, request: CompareRequest, options: VerifyOptions, runner: Runner) -> CompareResult:
    from offsite.cli.progress import progress
    from offsite.restore.compare.run import plan_comparison, run_comparison

    cluster = connect(options.against, options.kafka_config)
    planned = plan_comparison(opened, cluster.admin, request)
    with progress("compare", total_bytes=planned.raw_bytes) as on_progress:
        return run_comparison(planned, cluster=cluster, runner=runner, on_progress=on_progress)
