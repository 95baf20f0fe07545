"""What a PromQL expression refers to: series with the labels they are chosen by, and labels it groups by. No parser: it
knows the words that our own expressions use, and refuses others."""

from __future__ import annotations

import re
from dataclasses import dataclass

FUNCTIONS = frozenset(
    {"absent", "bottomk", "changes", "histogram_quantile", "increase", "max", "max_over_time", "min", "rate", "sum"}
    | {"time", "topk"}
)
_WORDS = frozenset(["by", "ignoring", "offset", "on", "or", "unless", "without"])
_UNITS = re.compile(r"\b\d+(\.\d+)?(ms|s|m|h|d|w|y)?\b|\$__\w+")
_GROUPING = re.compile(r"\b(by|without|on|ignoring)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{([^}]*)\})")
_MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*\"[^\"]*\"")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """`series`: names with the labels that their selectors match; `labels`: those that are grouped or matched by."""

    series: frozenset[tuple[str, frozenset[str]]]
    labels: frozenset[str]


def references(expression: str) -> References:
    """What `expression` refers to. Raises `AssertionError` for a word that is no series and not known."""
    labels = {label.strip() for _, found in _GROUPING.findall(expression) for label in found.split(",")}
    left = _GROUPING.sub(" ", expression)
    series = {(name, frozenset(_MATCHER.findall(matchers))) for name, matchers in _SELECTOR.findall(left)}
    left = _UNITS.sub(" ", _SELECTOR.sub(" ", left))
    bare = set(_NAME.findall(left)) - FUNCTIONS - _WORDS
    unknown = {name for name in bare if not name.startswith("offsite_")}
    assert not unknown, f"{sorted(unknown)} in {expression}"
    return References(series=frozenset(series | {(name, frozenset()) for name in bare}), labels=frozenset(labels))
