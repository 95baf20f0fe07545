"""What follows from the tables, in words: what bounds a backup, what a restore, what requests cost, what to change."""

from __future__ import annotations

from dataclasses import replace

from bench.at_scale.money import DAYS_30
from bench.at_scale.results import Results
from bench.at_scale.simulate import LOOK_UP_MS, LOOK_UPS_TOGETHER, Simulated, Stage
from bench.at_scale.stage import CHAIN
from bench.at_scale.words import count, dollars, time_of
from bench.at_scale.worlds import GB, PRICES, SPLIT, TB, World
from offsite.backup.copy_pass import CommitThresholds
from offsite.backup.copy_plan import TASK_BYTES_MAX, TASKS_MAX
from offsite.model.units import GIB

MILLION = 10**6


def what_it_says(results: Results) -> str:
    costs, middle, big, split = results.costs, results.worlds[1], results.largest_world, results.split
    core = 1000 / costs.backup.mib_ms
    chain_tb = time_of(chain_s(replace(big.world, largest_bytes=TB), costs.restore.mib_ms))
    idle = time_of(big.proof.ran.bound_s.get(CHAIN, 0))
    puts = PRICES.requests(big.backup.puts, big.backup.gets)
    storage = PRICES.storage_month(big.stored_bytes)
    day = results.day
    following = DAYS_30 * PRICES.requests(day.puts + day.roll_up_puts, day.gets + day.roll_up_gets)
    every = CommitThresholds()
    gib = every.bytes // GIB
    _, far_middle, far_big, far_split = results.far
    far_share = _written_share(far_big)
    return f"""\
**The backup window.** Cores are not the limit: one core copies {core:.0f} MiB a second. {middle.world.name} are copied
after {time_of(copied_s(middle))}, bound by {middle.backup.ran.bound_by}; {big.world.name} after
{time_of(copied_s(big))} ({big.backup.ran.bound_by}). A pass commits every {gib} GiB or {every.seconds / 60:.0f} min.
Each commit goes over all tasks of the pass to find the new segments. To keep this from growing with the square of the
tasks, a commit waits until {every.times_longer:.0f} times the duration of the last search has passed, whatever the rest
of the commit took. In {big.world.name}, searches take {time_of(big.backup.ran.search_s)} of the driver and all commits
take {time_of(big.backup.ran.commit_s)}, beside the copy. With the last commit, the backup takes
{time_of(big.backup.seconds)}. A plan has about {TASKS_MAX:,} tasks, larger ones beyond
{TASKS_MAX * TASK_BYTES_MAX / TB:.0f} TB, but at least one for each partition that is not small:
{count(big.backup.tasks)} for {big.world.name}.

**What that costs.** A driver that is killed loses the running tasks and the segments that are not committed yet: at
most {time_of(middle.backup.ran.unsaved_s)} of {middle.world.name}, and {time_of(big.backup.ran.unsaved_s)} of
{big.world.name}. (A driver that is interrupted still commits.) The largest commit of {big.world.name} lists
{count(big.backup.ran.most_new)} segments, some {big.backup.ran.most_new / MILLION:.1f} GB of JSON at 1 kB each. The
driver holds {big.driver_bytes / GB:.1f} GB of tasks and segments besides. A commit also looks up each of its segments
in the store, {LOOK_UPS_TOGETHER} at once. If each look-up takes {LOOK_UP_MS} ms, {middle.world.name} have
{far_middle.ran.commits} commits, at most {time_of(far_middle.ran.unsaved_s)} apart. {big.world.name} has
{far_big.ran.commits} commits, up to {time_of(far_big.ran.unsaved_s)} apart, because writing them takes {far_share:.0%}
of the driver's time; with the last commit, the backup takes {time_of(far_big.seconds)}.
**None of this was tried: for tens of TB and more, make several backups**, each of a part of the topics. {SPLIT} backups
of {big.world.name}, side by side, take {time_of(far_split.seconds)} then, with {split.driver_bytes / GB:.2f} GB of
memory each. A possible improvement: more look-ups at once.

**Restore.** A byte goes to {big.world.replicas} replicas, so a restore is bound by {big.restore.ran.bound_by}:
{time_of(big.restore.seconds)} for {big.world.name}. More executors do not help. The largest partition takes {chain_tb}
for each TB, with any number of executors. The largest partition begins first, and matters only if it is larger than its
share of all. The proof begins partitions in the order of the list: in {big.world.name}, it has free slots for {idle} at
its end while the last large partitions are read. A possible improvement: the largest first there too.

**Requests.** {dollars(puts)} for the first backup of {big.world.name}, beside {dollars(storage)} for each month of
storage. A backup that follows pays more for requests: {dollars(following)} a month, nearly all of it for gets and puts
of roll-ups; half the rounds cost half of that. Bytes that cross zones cost more than all requests and executors: let
fetches go to replicas in the same zone (`client.rack`), and keep the bucket in the region."""


def copied_s(found: Simulated) -> float:
    return found.backup.plan_s + found.backup.ran.copied_s


def _written_share(backup: Stage) -> float:
    """What writing commits takes of the driver's time until the last one is there."""
    return (backup.ran.commit_s - backup.ran.search_s) / backup.ran.seconds


def chain_s(world: World, mib_ms: float) -> float:
    return world.largest_bytes / 2**20 * mib_ms / 1000
