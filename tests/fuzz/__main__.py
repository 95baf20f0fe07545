"""One mutant again, or many by hand:

python -m tests.fuzz TARGET SEED INDEX      read it in this process: whatever it raises is seen
python -m tests.fuzz --all SEED COUNT       so many mutants of each target
python -m tests.fuzz --bombs 1 1            what grows beyond all bounds
python -m tests.fuzz TARGET SEED 0-1999     these of one
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from time import monotonic

from tests.fuzz.fuzzer import Fuzzer
from tests.fuzz.judge import judge
from tests.fuzz.mutation import mutant
from tests.fuzz.targets import BOMB_TARGETS, TARGETS
from tests.fuzz.worker import prepared


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _show(name: str, seed: int, index: int) -> None:
    target, truth = prepared(name)
    files = mutant(target, name=name, seed=seed, index=index)
    for key in sorted(files.keys() | target.files.keys()):
        if files.get(key) != target.files.get(key):
            _say(f"{key}:\n  was {target.files.get(key, b'')[:2000]!r}\n  is  {files.get(key, b'')[:2000]!r}")
    verdict = judge(target, truth, files)
    _say(f"{verdict.outcome}: {verdict.cause}\n{verdict.trace}")


def _run(names: Iterable[str], seed: int, indexes: range) -> None:
    with Fuzzer() as fuzzer:
        for name in names:
            started_s = monotonic()
            done = fuzzer.run(name, seed=seed, indexes=indexes)
            taken = f"{monotonic() - started_s:.1f} s, slowest {done.slowest_s:.2f} s, {done.peak_bytes >> 20} MiB"
            _say(f"{name}: {dict(done.outcomes)}, {taken}")
            if done.failures:
                _say(done.report())


def main() -> None:
    name, seed, which = sys.argv[1:]
    first, dash, last = which.partition("-")
    if name in {"--all", "--bombs"}:
        _run(TARGETS if name == "--all" else BOMB_TARGETS, int(seed), range(int(which)))
    elif dash:
        _run([name], int(seed), range(int(first), int(last) + 1))
    else:
        _show(name, int(seed), int(which))


if __name__ == "__main__":
    main()
