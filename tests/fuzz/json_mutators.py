"""Changes of JSON that stay JSON, so that what reads it gets past the parser: other values, types, keys and depths."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

HUGE, DEEP, INFINITE, DIGITS = "@huge@", "@deep@", "@infinite@", "@digits@"
_RAW = {
    HUGE: b"9" * 30,
    DIGITS: b"9" * 5_000,  # more than Python reads into an integer
    INFINITE: b"1e999",
    DEEP: b"[" * 100_000 + b"]" * 100_000,
}
"""What no serializer writes: put in as text, then replaced."""

_VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, -(2**63), 2**64, 10**18, 10**25, -(10**25)),
    *(HUGE, HUGE, DIGITS, INFINITE, DEEP, 0.5, -0.0, 1e300, float("nan"), True, False, None),
    *("", "x", "\ud800", "\0", "../../up", "/", "a" * 300, "é" * 200, "-1", "9" * 30, "none", "zstd"),
    *([], {}, [[]], [None], [0], [-1, -1, -1], {"": ""}, {"a": 10**25}),
)

_PLAIN: dict[str, Any] = {"ensure_ascii": True}
_STYLES: tuple[dict[str, Any], ...] = (
    {"sort_keys": True, "separators": (",", ":"), "ensure_ascii": True},
    {"sort_keys": True, "indent": 1},
    {"indent": 2},
    {"indent": 2, "ensure_ascii": False},
    {"separators": (",", ":"), "ensure_ascii": False},
)


def parse(data: bytes) -> object | None:
    """None for what is no JSON object or list."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def encode_as(value: object, original: bytes) -> bytes:
    """In the form of `original`, as far as one of the usual ones fits it."""
    known = json.loads(original)
    ends = b"\n" if original.endswith(b"\n") else b""
    for style in _STYLES:
        if _bytes(known, style) + ends == original:
            return _bytes(value, style) + ends
    return json.dumps(value, **_PLAIN).encode() + ends


def _bytes(value: object, style: dict[str, Any]) -> bytes:
    return json.dumps(value, **style).encode("utf-8", "surrogatepass")


def mutate_json(data: bytes, rng: Random) -> bytes | None:
    """`data` with one change; None where it is no JSON. Of JSON lines, one line is changed."""
    if (value := parse(data)) is None:
        return _mutate_line(data, rng)
    places = list(_places(value))
    holder, key = rng.choice(places) if places else (value, None)
    rng.choice(_CHANGES)(holder, key, rng)
    changed = encode_as(value, data)
    for name, raw in _RAW.items():
        changed = changed.replace(f'"{name}"'.encode(), raw)
    return changed


def _mutate_line(data: bytes, rng: Random) -> bytes | None:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    if len(lines) < 3 or parse(lines[at]) is None:
        return None
    lines[at] = mutate_json(lines[at], rng) or b""
    return b"\n".join(lines)


def _places(value: Any) -> Any:
    """Each (object or list, key or index) in it, however deep."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(items):
        yield value, key
        yield from _places(child)


def _replace(holder: Any, key: Any, rng: Random) -> None:
    if key is not None:
        holder[key] = rng.choice(_VALUES)


def _near(holder: Any, key: Any, rng: Random) -> None:
    """A number a little beside the right one, which passes more checks."""
    if key is not None and type(holder[key]) is int:
        holder[key] += rng.choice((-1, 1, -10, 10, 1000))
    else:
        _replace(holder, key, rng)


def _drop(holder: Any, key: Any, _rng: Random) -> None:
    if key is not None:
        del holder[key]


def _rename(holder: Any, key: Any, rng: Random) -> None:
    if isinstance(holder, dict) and key is not None:
        holder[rng.choice((f"{key}s", "", key.upper(), "format"))] = holder.pop(key)


def _double(holder: Any, key: Any, rng: Random) -> None:
    """The same entry of a list again, or the value of another key."""
    if isinstance(holder, list) and key is not None:
        holder.insert(rng.randrange(len(holder) + 1), holder[key])
    elif key is not None:
        holder[key] = holder[rng.choice(list(holder))]


def _reverse(holder: Any, _key: Any, _rng: Random) -> None:
    if isinstance(holder, list):
        holder.reverse()


_CHANGES: tuple[Callable[[Any, Any, Random], None], ...] = (
    *(_replace, _replace, _replace, _near, _near),
    *(_drop, _rename, _double, _reverse),
)
