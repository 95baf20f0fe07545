"""A process that exports without Spark: `python exporting_process.py REPOSITORY FORMAT PLACE`. Tests kill it."""

from __future__ import annotations

import sys

from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store
from tests.integration.archives.exchange import Exchange


def main(repository: str, format_name: str, places: str) -> None:
    exchange = Exchange(repository=Repository.open(open_store(repository)), places=places)
    job = exchange.job(format_name, "a")
    plan = job.plan()
    print("planned", flush=True)  # noqa: T201  # the test waits for it
    job.run(plan, exchange.runner)


if __name__ == "__main__":
    main(*sys.argv[1:])
