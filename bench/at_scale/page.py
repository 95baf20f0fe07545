"""The part of docs/explanation/scale.md between two marks: tables of what was measured, and of what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import fill

from bench.at_scale.costs import HELD_COMMITS, SEGMENT_BYTES, TASK_BYTES, UnitCosts
from bench.at_scale.money import following_day, money, prices_taken
from bench.at_scale.results import Results, in_tb
from bench.at_scale.said import chain_s, what_it_says
from bench.at_scale.simulate import LOOK_UP_MS, S3_GETS_S, S3_PUTS_S, Simulated, Stage
from bench.at_scale.stage import CHAIN
from bench.at_scale.words import count, table, time_of
from bench.at_scale.worlds import GB, SPLIT, TB, World
from offsite.backup.copy_plan import TASK_BYTES_MAX, TASKS_MAX

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "scale.md"
BEGIN, END = "<!-- begin: made by `make scale` -->", "<!-- end: made by `make scale` -->"
PICTURE = "scale-largest.svg"
_LINE = 150
"""Characters."""


def with_results(text: str, results: Results) -> str:
    """The page `text` with `results` between its marks. Raises `ValueError` where it has none."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{section(results)}\n{END}{after}"


def section(results: Results) -> str:
    parts = (
        "### Measured",
        _units(results),
        _checked(results),
        "### Simulated",
        _inputs(results),
        _times(results),
        _picture(results),
        "### Dollars",
        prices_taken(),
        money(results),
        following_day(results),
        "### What it says",
        what_it_says(results),
    )
    return "\n\n".join(_filled(part) for each in parts for part in each.split("\n\n"))


def _filled(part: str) -> str:
    """`part` in lines as long as the page's are; tables as they are."""
    return part if part.startswith("|") else fill(part, _LINE, break_long_words=False, break_on_hyphens=False)


def _units(results: Results) -> str:
    costs = results.costs
    copies = (costs.backup, costs.restore, costs.proof)
    driver = costs.driver
    full_tb = TASKS_MAX * TASK_BYTES_MAX / TB

    def row(name: str, of: Callable[..., str]) -> tuple[str, ...]:
        return (name, *map(of, copies))

    made = table(
        ("unit, measured", "backup", "restore", "its proof"),
        [
            row("a MiB of the log", lambda each: f"{each.mib_ms:.1f} ms"),
            row("a small range or partition", lambda each: f"{each.small_ms:.1f} ms"),
            row("a run, whatever its size", lambda each: f"{each.run_ms:.0f} ms"),
            row("planning a partition, in the driver", lambda each: f"{each.plan_ms:.2f} ms"),
            row("requests for a segment: puts, gets", lambda each: f"{each.segment_puts:.0f}, {each.segment_gets:.0f}"),
            row("gets for 100 MiB", lambda each: f"{100 * each.mib_gets:.0f}"),
            row("requests for a partition: puts, gets", lambda e: f"{e.partition_puts:.0f}, {e.partition_gets:.0f}"),
        ],
    )
    return f"""\
{_machine(costs)} The figures are CPU time of offsite, without the broker's CPU time, and medians. The producer
compressed the topic with lz4, so a byte of its log is a byte in the store. Listings count as puts, because they have
the price of puts.

{made}

A task of Spark costs {driver.task_ms:.1f} ms of CPU, {driver.driver_task_ms:.1f} ms of it in the driver and the JVM.
Here the JVM also belongs to the executor: on a cluster the driver's part is less. A task holds
{driver.task_heap_bytes:,.0f} bytes on Java's heap. With its segment, a task holds {driver.task_python_bytes:,.0f} bytes
more of the driver's memory, until the segment is committed. A commit costs {driver.commit_ms:.1f} ms,
{1000 * driver.commit_segment_ms:.0f} µs for each segment in the commit, {driver.commit_puts:.0f} puts and
{driver.commit_gets:.0f} gets. To find the new segments, a commit costs {1000 * driver.commit_ended_task_ms:.0f} µs more
for each task of the pass that has ended so far. A run takes {driver.run_puts:.0f} puts and {driver.run_gets:.0f} gets
more.

These tasks had one segment each; the larger tasks of a plan of more than {full_tb:.0f} TB have many. The
{1000 * driver.brought_segment_ms:.0f} µs for a task with its segment are counted for each segment here, which is
rather too much. A check of the memory by hand gave 1,135 to 1,300 bytes a segment for tasks with eight or more
segments, and 1,615 for tasks with one. So the calculation takes {SEGMENT_BYTES:,} bytes for a segment, and {TASK_BYTES}
for a task besides. Memory of committed segments is freed: the calculation takes {HELD_COMMITS} times the segments of
the largest commit."""


def _machine(costs: UnitCosts) -> str:
    machine = costs.machine
    return (
        f"Measured on {costs.taken_on}: {machine['cores']} cores shared with other work (load {costs.load_average}), "
        f"Python {machine['python']}, Spark {machine['spark']}, Kafka {machine['kafka']}."
    )


def _checked(results: Results) -> str:
    costs, check = results.costs, results.costs.check_backup
    checks = zip((costs.check_backup, costs.check_restore), results.check_s, strict=True)
    told = [(each, simulated, each.cpu_s / each.cores) for each, simulated in checks]
    rows = [
        (name, f"{each.log_mib:.0f} MiB", f"{simulated:.2f} s", f"{of_cpu:.2f} s", f"{each.wall_s:.2f} s")
        for name, (each, simulated, of_cpu) in zip(("backup", "restore"), told, strict=True)
    ]
    made = table(("a run that gave none of the costs", "moved", "simulated", "CPU by cores", "clock"), rows)
    backup, restore = (simulated / of_cpu for _, simulated, of_cpu in told)
    return f"""\
The next table compares the simulation with a run of {check.large} large and {check.small} small partitions here, with
the broker on the same {check.cores} cores. The simulation gives {backup:.2f} times the CPU of the backup, and
{restore:.2f} times the CPU of the restore (a factor of 2 either way fails a test). The simulation knows no waiting for
a disk, a leader or other work, so the clock shows more on a busy machine:

{made}"""


def _inputs(results: Results) -> str:
    worlds = [each.world for each in results.worlds]

    def row(name: str, of: Callable[[World], str]) -> tuple[str, ...]:
        return (name, *map(of, worlds))

    world = worlds[0]
    made = table(
        ("input", *(each.name for each in worlds)),
        [
            row("partitions", lambda each: f"{each.partitions:,}"),
            row("the largest partition", lambda each: in_tb(each.largest_bytes)),
            row("executors", lambda each: f"{each.executors}"),
            row("brokers", lambda each: f"{each.brokers}"),
            row("prefixes of the bucket", lambda each: f"{each.prefixes}"),
        ],
    )
    return f"""\
Executors have {world.executor_cores} cores like the cores here and {world.executor_gbit_s:g} Gbit/s. Brokers have
{world.broker_gbit_s:g} Gbit/s; a backup may take {world.broker_share:.0%} of that. Restored records go to
{world.replicas} replicas. {world.idle_share:.0%} of the partitions hold a MiB, one is the largest, the sizes of the
others are log-normal. S3 takes {S3_PUTS_S:,} puts and {S3_GETS_S:,} gets a second for a prefix. If the tasks want more
of a resource than there is, all of them slow down alike.

{made}"""


def _times(results: Results) -> str:
    shown = [*results.worlds, results.split]

    def row(name: str, of: Callable[[Simulated], str]) -> tuple[str, ...]:
        return (name, *map(of, shown))

    def far_row(name: str, of: Callable[[Stage], str]) -> tuple[str, ...]:
        return (name, *map(of, results.far))

    mib_ms = results.costs.restore.mib_ms
    return table(
        ("simulated", *(each.world.name for each in results.worlds), f"1 PB as {SPLIT} backups, each"),
        [
            row("**backup**", lambda each: f"**{time_of(each.backup.seconds)}**"),
            row("bound by", lambda each: each.backup.ran.bound_by),
            row("until all is copied", lambda each: time_of(each.backup.plan_s + each.backup.ran.copied_s)),
            row("commits", lambda each: f"{each.backup.ran.commits:,}"),
            row("time of all commits", lambda each: time_of(each.backup.ran.commit_s)),
            row("of this, to find new segments", lambda each: time_of(each.backup.ran.search_s)),
            row("longest time between commits", lambda each: time_of(each.backup.ran.unsaved_s)),
            row("segments of the largest commit", lambda each: count(each.backup.ran.most_new)),
            far_row(f"**backup**, look-ups of {LOOK_UP_MS} ms", lambda each: f"**{time_of(each.seconds)}**"),
            far_row("commits", lambda each: f"{each.ran.commits:,}"),
            far_row("time of all commits", lambda each: time_of(each.ran.commit_s)),
            far_row("longest time between commits", lambda each: time_of(each.ran.unsaved_s)),
            far_row("segments of the largest commit", lambda each: count(each.ran.most_new)),
            row("tasks", lambda each: count(each.backup.tasks)),
            row("segments", lambda each: count(each.backup.segments)),
            row("driver memory for tasks and segments", lambda each: f"{each.driver_bytes / GB:,.2g} GB"),
            row("puts, gets", lambda each: f"{count(each.backup.puts)}, {count(each.backup.gets)}"),
            row("**restore**", lambda each: f"**{time_of(each.restore.seconds)}**"),
            row("bound by", lambda each: each.restore.ran.bound_by),
            row("its largest partition, alone", lambda e: time_of(chain_s(e.world, mib_ms))),
            row("tasks", lambda each: count(each.restore.tasks)),
            row("puts, gets", lambda each: f"{count(each.restore.puts)}, {count(each.restore.gets)}"),
            row("**its proof**", lambda each: f"**{time_of(each.proof.seconds)}**"),
            row("bound by", lambda each: each.proof.ran.bound_by),
            row("of this, with free slots", lambda each: time_of(each.proof.ran.bound_s.get(CHAIN, 0))),
            row("gets", lambda each: count(each.proof.gets)),
        ],
    )


def _picture(results: Results) -> str:
    world = results.by_largest[0].world
    return f"""\
The picture shows the same {world.name} with largest partitions of different sizes. A backup cuts the largest partition.
A restore writes it as one ordered chain, from its beginning on. The proof of the restore reads it when its turn comes.

![Hours by the size of the largest partition](pictures/{PICTURE})"""
