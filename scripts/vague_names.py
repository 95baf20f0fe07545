#!/usr/bin/env python3
"""Check that no file binds more vague names than `vague_names.txt` allows.

A vague name (`each`, `found`, `told`, `known`) does not say what the variable holds. The list has a line for each file:
`path count`. The list only shrinks: a count that is too high is an error, too. `--write` lowers counts and raises none.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "scripts" / "vague_names.txt"
FOLDERS = ("src", "participant", "tests", "bench", "examples", "docs", "scripts")
VAGUE = frozenset({"each", "found", "told", "known"})


def main() -> int:
    bound, allowed = count_bindings(), read_list()
    if "--write" in sys.argv:
        allowed = Counter({path: min(count, bound[path]) for path, count in allowed.items()})
        write_list(allowed)
    problems = [
        f"{path}: {bound[path]} vague names, {allowed[path]} allowed: say what the variable holds"
        for path in sorted(bound)
        if bound[path] > allowed[path]
    ]
    problems += [
        f"{path}: {bound[path]} vague names, {LIST.name} says {count}: run scripts/{Path(__file__).name} --write"
        for path, count in sorted(allowed.items())
        if count > bound[path]
    ]
    print("\n".join(problems or [f"{bound.total()} vague names, none of them new"]))  # noqa: T201
    return bool(problems)


def count_bindings() -> Counter[str]:
    """Path of a file → how many vague names the file binds."""
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return Counter(str(path.relative_to(ROOT)) for path in paths for name in bound_names(path) if name in VAGUE)


def bound_names(path: Path) -> list[str]:
    """The names of variables, fields and parameters that a file binds, without leading underscores."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    return [name.strip("_") for name in names + [node.arg for node in nodes if isinstance(node, ast.arg)]]


def read_list() -> Counter[str]:
    lines = (line.rsplit(" ", 1) for line in LIST.read_text().splitlines())
    return Counter({path: int(count) for path, count in lines})


def write_list(allowed: Counter[str]) -> None:
    LIST.write_text("".join(f"{path} {count}\n" for path, count in sorted(allowed.items()) if count))


if __name__ == "__main__":
    sys.exit(main())
