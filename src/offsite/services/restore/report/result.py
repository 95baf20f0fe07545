"""The result of a restore, as people and scripts read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offsite.copy.incarnations import KnownIncarnation
from offsite.services.compare.result import Finding, Uncompared
from offsite.services.groups.run import GroupsApplied
from offsite.services.hole_report import HoleReport
from offsite.services.restore.cluster_settings import AppliedMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedRecords:
    """Records that the backup holds at the commit, and that `options` left out, together where they are several."""

    options: tuple[str, ...]
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTopic:
    """`records` are in the target; `invisible_records` were left out as aborted or undecided at the restore point, or,
    with `same_offsets`, are there and aborted."""

    source: str
    partitions: int
    same_offsets: bool
    records: int
    bytes: int
    invisible_records: int
    undecided_transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """`topics` by target name; `skipped` lists (topic, reason); `held_back` lists (topic, setting, value): settings of
    the source that were not set, because they would delete restored records at once; `left_out` lists (topic, setting,
    reason) of those that the target cannot have. `verified`: what was written was read back and is what the backup
    holds; None when it was not read (then `compared_records` is None too), when there was nothing to compare, or when
    partitions could not be read (`uncompared`). `findings` has the first difference of each partition. `lacking` is
    what the backup itself does not have of what came back. `groups` is None when none were asked for. `incarnations`:
    of topics that were deleted and made anew, which was taken, and the others. Where no record came back, `problem`
    says why, and `excluded` what the backup holds all the same, by the options that left it out. `newer_commit`: that
    which the request means by now, where it is a later one than `commit`; None: it is not, or that could not be read.
    `notes` are sentences on what else a person should know, as of settings that somebody changed meanwhile."""

    restore: str
    backup: str
    commit: int
    offsets: str
    isolation: str
    resumed: bool
    records: int
    bytes: int
    topics: Mapping[str, RestoredTopic]
    skipped: tuple[tuple[str, str], ...]
    held_back: tuple[tuple[str, str, str], ...]
    left_out: tuple[tuple[str, str, str], ...]
    holes: int
    verified: bool | None
    findings: tuple[Finding, ...]
    metadata: AppliedMetadata = field(default_factory=AppliedMetadata)
    groups: GroupsApplied | None = None
    compared_records: int | None = None
    uncompared: tuple[Uncompared, ...] = ()
    lacking: tuple[HoleReport, ...] = ()
    incarnations: tuple[KnownIncarnation, ...] = ()
    problem: str = ""
    excluded: tuple[ExcludedRecords, ...] = ()
    notes: tuple[str, ...] = ()
    newer_commit: int | None = None
