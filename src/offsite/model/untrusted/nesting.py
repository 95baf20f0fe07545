"""How deep values of strangers nest. Pure."""

from __future__ import annotations

NESTED_MAX = 128
"""Lists, objects and tuples within one another. Readers that recurse end by the stack that their caller has left, at
190 levels at the earliest: what they read of more depends on the caller."""


def nests_too_deep(value: object, *, most: int = NESTED_MAX) -> bool:
    """Whether `value` nests in more than `most` levels. Without recursion."""
    level = [value]
    for _ in range(most):
        parts = [part for container in level for part in _parts(container)]
        level = [part for part in parts if isinstance(part, dict | list | tuple)]
        if not level:
            return False
    return True


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
