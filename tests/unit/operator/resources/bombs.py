"""Texts that cost a careless reader of YAML minutes or gigabytes."""

from __future__ import annotations

_HEAD = "apiVersion: offsite.dev/v1alpha1\nkind: Backup\nmetadata: {name: x}\n"
_NINE = [",".join([f"*l{number - 1}"] * 9) for number in range(10)]
_LISTS = "x0: &l0 [a]\n" + "".join(f"x{number}: &l{number} [{_NINE[number]}]\n" for number in range(1, 10))
_MAPS = "l0: &l0 {a: 1}\n" + "".join(f"l{number}: &l{number} {{<<: [{_NINE[number]}]}}\n" for number in range(1, 10))

BOMBS = {
    "aliases": _LISTS,
    "aliases as the kind": f"{_LISTS}kind: *l9\n",
    "aliases as the version": f"{_LISTS}apiVersion: *l9\nkind: Backup\n",
    "merge keys": _MAPS,
    "merge keys without aliases": f"{_HEAD}spec: {{<<: [{{topics: [a]}}, {{topics: [b]}}]}}\n",
    "a list in itself": "status: &s [*s]\n",
    "anchors": "".join(f"- &a{number} x\n" for number in range(60_000))[:250_000],
    "many anchors in a large file": "".join(f"- &a{number} x\n" for number in range(60_000)),
    "many names": "".join(f"{number:x}: 1\n" for number in range(110_000)),
    "names, as many as fit": "".join(f"{number:x}: 1\n" for number in range(4_990)),
    "many fields": f"{_HEAD}spec:\n" + "".join(f"  t{number}: 1\n" for number in range(4_900)),
    "many documents": "--- 1\n" * 40_000,
    "a number to the base of 60": f"{_HEAD}spec: {{state: 1{':1' * 100_000}}}\n",
    "a number to the base of 60, as it says": f"a: !!int 1{':1' * 100_000}\n",
    "a long number": f"kind: {'9' * 200_000}\n",
    "a long number to the base of 16": f"kind: 0x{'9' * 200_000}\n",
    "a long kind": f"kind: {'B' * 200_000}\n",
    "a longer kind": f"kind: {'B' * 900_000}\n",
    "a long version": f"apiVersion: {'B' * 200_000}\nkind: Backup\n",
    "a long name of a field": f"{_HEAD}? {'t' * 200_000}\n: 1\n",
    "a long name, twice": f"? {'t' * 100_000}\n: 1\n? {'t' * 100_000}\n: 1\n",
    "a long alias": f"kind: *{'t' * 200_000}\n",
    "a long tag": f"kind: !{'t' * 200_000} x\n",
    "lists in lists": "[" * 100_000,
    "lists in lists, in blocks": "- " * 100_000,
    "lines": f"kind: |\n{' x' * 10}\n" + " x\n" * 60_000,
    "words": f"kind: {'B ' * 100_000}\n",
    "escapes": f'kind: "{chr(92)}e{chr(92)}n{"x" * 200_000}"\n',
}
