r"""Several patterns in one text, as in a command line or a form field: `orders,regex:^rx-[0-9]{1,3}$`.

A comma separates two patterns, but not inside closed brackets, braces or parentheses; `\,` is a comma of a pattern
anywhere. A list (of YAML, Python, the API) needs no separator: every element is one pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

PATTERN_OPTIONS = frozenset(
    {"topics", "exclude", "groups", "rename", "expect_deletes", "participant_topics", "incarnation", "repartition"}
)
"""All options whose values are lists of patterns or names."""
_CLASS_MAX = 256
"""Characters of a set: an unclosed set is not searched without end."""
_TOKEN = re.compile(
    r"\\+,"  # a comma of a pattern
    r"|\\."
    rf"|\[[!^]?\]?(?:\\.|[^\]\\]){{0,{_CLASS_MAX}}}\]"  # [a,b]
    rf"|\{{[^{{}}]{{0,{_CLASS_MAX}}}\}}"  # {1,3}
    r"|.",
    re.DOTALL,
)
REGEX_PREFIX = "regex:"
_POSSIBLE_GLOB = re.compile(r"(?:[A-Za-z0-9._*?-]|\[[!^]?\]?[^]]*\])*")
_ALL, _NOTHING = "regex:^", "regex:(?!)"
_SEPARATOR, _ESCAPED = ",", r"\,"


def split_patterns(text: str) -> list[str]:
    """Return the patterns of `text`, without surrounding blanks; empty patterns are left out."""
    separators, opened = list[int](), list[int]()  # per open parenthesis: number of separators before
    for token in _TOKEN.finditer(text):
        match token[0]:
            case ",":
                separators.append(token.start())
            case "(":
                opened.append(len(separators))
            case ")" if opened:
                del separators[opened.pop() :]
    bounds = [-1, *separators, len(text)]
    parts = (text[start + 1 : end] for start, end in pairwise(bounds))
    return [part.replace(_ESCAPED, _SEPARATOR).strip() for part in parts if part.strip()]


def split_all(texts: Iterable[str] | None) -> list[str] | None:
    """Return the patterns of an option that may be given several times; None where not given. A text without patterns
    stays an empty pattern: an empty option does not mean all."""
    return None if texts is None else [pattern for text in texts for pattern in split_patterns(text) or [""]]


def escape_pattern(pattern: str) -> str:
    """Return the pattern as a command line takes it: `split_patterns` reads the result as one pattern again."""
    return pattern.replace(_SEPARATOR, _ESCAPED)


def join_patterns(patterns: Iterable[str]) -> str:
    """Return one text of several patterns; `split_patterns` divides the text again."""
    return _SEPARATOR.join(map(escape_pattern, patterns))


def stored_patterns(patterns: Iterable[str]) -> list[str]:
    """Convert topic patterns stored by an earlier version. An element could then hold several patterns, or mean nothing
    or all in a way refused today. No topic has a comma in its name, so today's elements hold no separating comma."""
    parts = (part for pattern in patterns for part in (split_patterns(pattern) if has_several(pattern) else [pattern]))
    return [_ALL if part == REGEX_PREFIX else part if is_possible(part) else _NOTHING for part in parts]


def is_possible(pattern: str) -> bool:
    """Whether a topic name can match the pattern. `*-{eu,us}` is for a shell, and would match nothing in silence."""
    return pattern.startswith(REGEX_PREFIX) or _POSSIBLE_GLOB.fullmatch(pattern) is not None


def has_several(pattern: str) -> bool:
    return len(split_patterns(pattern)) > 1
