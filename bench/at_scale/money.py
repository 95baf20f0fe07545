"""What it costs: the tables in dollars, of a backup, a restore, and of a backup that follows."""

from __future__ import annotations

from collections.abc import Callable

from bench.at_scale.results import Results, in_tb
from bench.at_scale.simulate import Simulated
from bench.at_scale.words import count, dollars, table
from bench.at_scale.worlds import GB, PRICES

DAYS_30 = 30


def money(results: Results) -> str:
    shown, prices = results.worlds, PRICES

    def row(name: str, of: Callable[[Simulated], float]) -> tuple[str, ...]:
        return (name, *(dollars(of(each)) for each in shown))

    def two_thirds(each: Simulated) -> float:
        return each.world.log_bytes / GB * prices.zone_gb * 2 / 3

    return table(
        ("dollars", *(each.world.name for each in shown)),
        [
            row("**storage, a month**", lambda each: prices.storage_month(each.stored_bytes)),
            row("requests of the first backup", lambda each: prices.requests(each.backup.puts, each.backup.gets)),
            row("executors of the first backup", lambda e: e.executors_cost(e.backup.seconds, prices)),
            row(
                "requests of a restore and its proof",
                lambda e: prices.requests(e.restore.puts + e.proof.puts, e.restore.gets + e.proof.gets),
            ),
            row("executors of a restore and its proof", lambda each: each.executors_cost(each.restore_s, prices)),
            row("if two thirds of the bytes cross zones once", two_thirds),
        ],
    )


def prices_taken() -> str:
    prices = PRICES
    steps = " · ".join(
        f"${price:g}" + (f" up to {top / 1000:g} TB" if top < float("inf") else " above")
        for top, price in prices.storage
    )
    rows = [
        ("storage, a GB and month", steps),
        ("1,000 puts or listings", f"${prices.put_1000:g}"),
        ("1,000 gets", f"${prices.get_1000:g}"),
        ("an executor, an hour", f"${prices.executor_hour:.2f}"),
        ("a GB from zone to zone, both sides", f"${prices.zone_gb:g}"),
    ]
    said = f"List prices of us-east-1, {prices.taken_on}; check your own prices. The price of an executor is a guess."
    return f"{said}\n\n{table(('price', ''), rows)}"


def following_day(results: Results) -> str:
    day = results.day
    following, world = day.following, day.following.world
    prices = PRICES
    rows = [
        (
            "a round",
            f"{day.round.seconds:.1f} s: {day.round.tasks} tasks, {day.round.puts:.0f} puts, {day.round.gets:.0f} gets",
        ),
        ("rounds, a day", f"{count(day.puts)} puts, {count(day.gets)} gets"),
        ("roll-ups, a day", f"{count(day.roll_up_puts)} puts, {count(day.roll_up_gets)} gets"),
        ("written again by roll-ups, a day", in_tb(day.written_again_bytes)),
        (
            "requests, 30 days",
            dollars(DAYS_30 * prices.requests(day.puts + day.roll_up_puts, day.gets + day.roll_up_gets)),
        ),
        ("storage of 30 days of new records, a month", dollars(prices.storage_month(DAYS_30 * following.day_bytes))),
    ]
    return f"""\
The next table is for a backup that follows the {world.name}: a round every {following.interval_s} s,
{in_tb(following.day_bytes)} a day, new records in all {following.busy:,} partitions in each round. The planner itself
decides which roll-ups are due. The table does not include reading the ends of the logs, deleting replaced segments, and
the bytes of commits.

{table(("following", ""), rows)}"""
