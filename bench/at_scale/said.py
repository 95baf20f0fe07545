"""What follows from the tables, in words: what bounds a backup, what a restore, what requests cost, what to change."""

from __future__ import annotations

from dataclasses import replace

from bench.at_scale.money import DAYS_30
from bench.at_scale.results import Results
from bench.at_scale.simulate import Simulated
from bench.at_scale.stage import CHAIN
from bench.at_scale.words import dollars, time_of
from bench.at_scale.worlds import PRICES, SPLIT, TB, World


def what_it_says(results: Results) -> str:
    costs, middle, big, split = results.costs, results.worlds[1], results.largest_world, results.split
    core = 1000 / costs.backup.mib_ms
    chain_tb = time_of(chain_s(replace(big.world, largest_bytes=TB), costs.restore.mib_ms))
    idle = time_of(big.proof.ran.bound_s.get(CHAIN, 0))
    puts = PRICES.requests(big.backup.puts, big.backup.gets)
    storage = PRICES.storage_month(big.stored_bytes)
    day = results.day
    following = DAYS_30 * PRICES.requests(day.puts + day.roll_up_puts, day.gets + day.roll_up_gets)
    return f"""\
**The backup window.** Cores are not what is short: one copies {core:.0f} MiB a second. {middle.world.name} are copied
after {time_of(copied_s(middle))}, which {middle.lean_backup.ran.bound_by} bounds, {big.world.name} after
{time_of(copied_s(big))} ({big.lean_backup.ran.bound_by}). But a pass commits every 10 GiB, and each commit looks at
every task that has ended: that grows with the square. Up to some TB nobody sees it; {middle.world.name} end after
{time_of(middle.backup.seconds)}, {big.world.name} after {time_of(big.backup.seconds)}: **today, a first backup of that
size has to be several backups**, each of a part of the topics: {SPLIT} of them, side by side, take
{time_of(split.backup.seconds)}. To change: commits that look at what is new; after that, the task for each 96 MiB.

**Restore.** A byte goes to {big.world.replicas} replicas, and {big.restore.ran.bound_by} bounds it:
{time_of(big.restore.seconds)} for {big.world.name}. More executors do not help. The largest partition takes {chain_tb}
for each TB, on however many: it begins first, and shows only where it is larger than its share of all. The proof
begins with partitions as they come: in {big.world.name}, {idle} at its end have slots free while the last large ones
are read. To change: the largest first there too.

**Requests.** {dollars(puts)} for the first backup of {big.world.name}, beside {dollars(storage)} for each month of
storage. Who follows pays more for them: {dollars(following)} a month, nearly all of it for gets and puts of
roll-ups; half the rounds are half of that. What crosses zones costs more than all requests and executors: let fetches
go to replicas in the same zone (`client.rack`), and the bucket be in the region."""


def copied_s(found: Simulated) -> float:
    return found.backup.plan_s + found.backup.ran.copied_s


def chain_s(world: World, mib_ms: float) -> float:
    return world.largest_bytes / 2**20 * mib_ms / 1000
