"""A world, the unit costs and the planners' rules, into a backup and a restore: time, requests, dollars. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.at_scale.costs import HELD_COMMITS, SEGMENT_BYTES, TASK_BYTES, CheckRun, CopyCosts, DriverCosts, UnitCosts
from bench.at_scale.cutting import Tasks, backup_tasks, proof_tasks, restore_tasks
from bench.at_scale.stage import Committing, Ran, Work, run_stage
from bench.at_scale.worlds import Prices, World
from offsite.backup.copy_pass import CommitThresholds
from offsite.model.units import MIB

BROKERS, NETWORK, PUTS, GETS, LAUNCHES = (
    "the brokers' network",
    "the executors' network",
    "puts of a prefix",
    "gets of a prefix",
    "the driver, which starts tasks",
)
S3_PUTS_S, S3_GETS_S = 3_500, 5_500
"""Requests a second that S3 takes for a prefix."""
LOOK_UP_MS, LOOK_UPS_TOGETHER = 20, 16
"""What a look at an object may take on S3, a guess; and how many a commit, which looks for each of its segments, makes
at once."""
_TRAINS = 20_000
_TRAINS_PER_SLOT = 200
"""Tasks that are alike go in trains, so that there are so many, and each slot gets so many: the page is made in
seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One part of a backup or a restore. `segments`: that a backup writes. `plan_s`: of the driver, before its first
    task."""

    ran: Ran
    tasks: int
    segments: int
    plan_s: float
    puts: float
    gets: float

    @property
    def seconds(self) -> float:
        return self.plan_s + self.ran.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """`driver_bytes`: memory that the driver of the backup needs for its tasks and segments, until its end."""

    world: World
    backup: Stage
    restore: Stage
    proof: Stage
    driver_bytes: float

    @property
    def stored_bytes(self) -> float:
        return self.world.log_bytes * self.world.stored_per_byte

    @property
    def restore_s(self) -> float:
        """With its proof."""
        return self.restore.seconds + self.proof.seconds

    def executors_cost(self, seconds: float, prices: Prices) -> float:
        return seconds / 3600 * self.world.executors * prices.executor_hour


def simulate(world: World, costs: UnitCosts) -> Simulated:
    driver = costs.driver
    backup = simulate_backup(world, costs.backup, driver)
    sizes = world.sizes()
    return Simulated(
        world=world,
        backup=backup,
        restore=_stage(world, costs.restore, driver, restore_tasks(sizes, slots=world.slots), copies=world.replicas),
        proof=_stage(world, costs.proof, driver, proof_tasks(sizes, slots=world.slots), reads=2),
        driver_bytes=backup.tasks * (driver.task_heap_bytes + TASK_BYTES)
        + HELD_COMMITS * backup.ran.most_new * SEGMENT_BYTES,
    )


def simulate_backup(world: World, costs: CopyCosts, driver: DriverCosts) -> Stage:
    """The first backup of a world, in one run."""
    tasks = backup_tasks(world.sizes(), slots=world.slots)
    every = CommitThresholds()
    committing = Committing(
        search_s=lambda brought: brought * driver.brought_segment_ms / 1000,
        write_s=lambda new: (driver.commit_ms + new * driver.commit_segment_ms) / 1000,
        every_bytes=every.bytes,
        every_s=every.seconds,
        times_longer=every.times_longer,
    )
    return _stage(world, costs, driver, tasks, committing=committing)


def simulate_far_backup(world: World, costs: UnitCosts) -> Stage:
    """The same, where a commit waits for the store, in whose place the costs were measured on local files."""
    segment_ms = costs.driver.commit_segment_ms + LOOK_UP_MS / LOOK_UPS_TOGETHER
    return simulate_backup(world, costs.backup, replace(costs.driver, commit_segment_ms=segment_ms))


def simulate_round(world: World, costs: CopyCosts, driver: DriverCosts, tasks: Sequence[Tasks]) -> Stage:
    """One round of a backup that follows, with one commit."""
    small = sum(each.number * each.small for each in tasks)
    write_s = (driver.commit_ms + small * driver.commit_segment_ms) / 1000
    never = float("inf")
    once = Committing(search_s=lambda _: 0.0, write_s=lambda _: write_s, every_bytes=never, every_s=never)
    return _stage(world, costs, driver, tasks, committing=once)


def _stage(  # noqa: PLR0913  # who does what, at which costs
    world: World,
    costs: CopyCosts,
    driver: DriverCosts,
    tasks: Sequence[Tasks],
    *,
    copies: int = 1,
    reads: int = 1,
    committing: Committing | None = None,
) -> Stage:
    """`copies`: how often a byte crosses the brokers' network; `reads`: how often it comes into an executor."""
    number = sum(each.number for each in tasks)
    length = max(1, number // max(_TRAINS, world.slots * _TRAINS_PER_SLOT))
    trains = [each for kind in tasks for each in kind.trains(length)]
    limits = _limits(world, driver, copies, reads)
    ran = run_stage(
        (_work(each, costs, driver) for each in trains), slots=world.slots, limits=limits, committing=committing
    )
    puts, gets = (sum(each.number * of(each, costs) for each in tasks) for of in (_puts, _gets))
    partitions = world.partitions
    return Stage(
        ran=ran,
        tasks=number,
        segments=sum(each.number * each.segments for each in tasks),
        plan_s=(costs.run_ms + partitions * costs.plan_ms) / 1000,
        puts=puts + driver.run_puts + ran.commits * driver.commit_puts,
        gets=gets + driver.run_gets + ran.commits * driver.commit_gets,
    )


def _limits(world: World, driver: DriverCosts, copies: int, reads: int) -> Mapping[str, float]:
    gbit = 10**9 / 8
    return {
        BROKERS: world.brokers * world.broker_gbit_s * gbit * world.broker_share / copies,
        NETWORK: world.executors * world.executor_gbit_s * gbit / reads,
        PUTS: S3_PUTS_S * world.prefixes,
        GETS: S3_GETS_S * world.prefixes,
        LAUNCHES: 1000 / driver.driver_task_ms,
    }


def _work(train: Tasks, costs: CopyCosts, driver: DriverCosts) -> Work:
    """What comes into an executor goes out of it: each direction has the whole of its network."""
    slot_ms = driver.task_ms + train.size_bytes / MIB * costs.mib_ms + train.small * costs.small_ms
    size_bytes = train.number * train.size_bytes
    return Work(
        slot_s=train.number * slot_ms / 1000,
        size_bytes=size_bytes,
        segments=train.number * train.segments,
        uses={
            BROKERS: size_bytes,
            NETWORK: size_bytes,
            PUTS: train.number * _puts(train, costs),
            GETS: train.number * _gets(train, costs),
            LAUNCHES: train.number,
        },
    )


def _puts(task: Tasks, costs: CopyCosts) -> float:
    packs = 1 if task.small and not costs.partition_puts else 0
    return packs + task.full_segments * costs.segment_puts + (task.large + task.small) * costs.partition_puts


def _gets(task: Tasks, costs: CopyCosts) -> float:
    of_bytes = task.size_bytes / MIB * costs.mib_gets if task.large else 0
    looks = 1 if task.small and not costs.partition_gets else 0
    return looks + of_bytes + task.full_segments * costs.segment_gets + (task.large + task.small) * costs.partition_gets


def simulated_check(check: CheckRun, costs: CopyCosts, driver: DriverCosts) -> float:
    """Seconds that the simulation gives for a run that was measured, on cores that are shared with the broker."""
    shared = replace(costs, mib_ms=costs.mib_ms + costs.broker_mib_ms, small_ms=costs.small_ms + costs.broker_small_ms)
    tasks = list(_check_tasks(check))
    works = [_work(each, shared, driver) for kind in tasks for each in kind.trains(1)]
    ran = run_stage(works, slots=check.cores, limits={})
    return ran.seconds + (costs.run_ms + (check.large + check.small) * costs.plan_ms) / 1000


def _check_tasks(check: CheckRun) -> Iterator[Tasks]:
    yield Tasks(number=check.large, size_bytes=int(check.log_mib * MIB / check.large), large=1)
    yield Tasks(number=check.cores, size_bytes=0, small=check.small // check.cores)
