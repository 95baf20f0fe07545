"""`python -m bench.opening`: seconds and megabytes to open large repositories and to add a commit to them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.large_repository import NAME, Large, grow, news, write_growing
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.stores.posix_store import open_folder

MAKERS: dict[str, Callable[[Path], Backup]] = {
    "A: 20,000 partitions, 1 M segments": Large(topics=2_000, partitions=10, segments=50, commits=105).write,
    "B: 510 commits of 2,000 segments": lambda folder: write_growing(folder, commits=510, partitions=2_000),
    "C: 3 M commits, 2,000 partitions": Large(topics=200, partitions=10, segments=3, commits=3_000_005).write,
}
_COMMITS = 20
_COMMAND = "import sys; from offsite.cli.main import main; sys.exit(main())"


def main() -> None:
    """For each repository: what shows it, as commands, then, in a process of their own, a state and commits to it."""
    with tempfile.TemporaryDirectory(prefix="offsite-bench-") as folder:
        for number, (name, make) in enumerate(MAKERS.items()):
            if sys.argv[1:] and not name.startswith(tuple(sys.argv[1:])):
                continue
            place = Path(folder) / str(number)
            pid = os.fork()  # so that what made it does not count as what opened it
            if not pid:
                start_s = time.perf_counter()
                make(place)
                print(f"{name}: made in {time.perf_counter() - start_s:.1f} s", flush=True)
                os._exit(0)
            os.waitpid(pid, 0)
            environment = {**os.environ, "XDG_STATE_HOME": f"{folder}/heads"}
            for what, arguments in (
                ("status", ["-c", _COMMAND, "status", "--repo", str(place)]),
                ("list", ["-c", _COMMAND, "list", "--repo", str(place)]),
                ("show", ["-c", _COMMAND, "show", NAME, "--repo", str(place)]),
                ("state and commits", ["-m", "bench.opening", "--commit", str(place)]),
            ):
                seconds, cpu_s, peak_mb, output = _measured([sys.executable, *arguments], environment)
                print(f"  {what}: {seconds:.2f} s, {cpu_s:.2f} s of CPU, {peak_mb} MB", flush=True)
                print(
                    "".join(f"    {line}\n" for line in output.splitlines() if "--commit" in arguments),
                    end="",
                    flush=True,
                )


def _measured(command: list[str], environment: dict[str, str]) -> tuple[float, float, int, str]:
    start_s = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    output = process.stdout.read() if process.stdout else ""
    _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - start_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024, output


def _commit(place: Path) -> None:
    backup = Repository.open(open_folder(place)).backup(NAME)
    start_s = time.perf_counter()
    state = backup.state()
    _say("state", start_s, 1)
    start_s = time.perf_counter()
    state = backup.commit(news(state, []), base=state, writer="first")
    _say("first commit", start_s, 1)
    start_s = time.perf_counter()
    for number in range(_COMMITS):
        state = backup.commit(news(state, []), base=state, writer=f"empty-{number}")
    _say("an empty commit", start_s, _COMMITS)
    start_s = time.perf_counter()
    for _ in range(_COMMITS):
        state = grow(backup, state, list(state.positions)[:20])
    _say("append and fold 20 segments", start_s, _COMMITS)
    start_s = time.perf_counter()
    backup.catalog.write(state)
    _say("a catalog", start_s, 1)


def _say(what: str, start_s: float, times: int) -> None:
    took_s = (time.perf_counter() - start_s) / times
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{what}: {took_s * 1000:.1f} ms, peak {peak_mb} MB", flush=True)


if __name__ == "__main__":
    _commit(Path(sys.argv[2])) if sys.argv[1:2] == ["--commit"] else main()
