"""The parts of reports as self-contained HTML files: to be filed, printed, sent to an auditor. Pure.

All share the look of the coordinator's pages. All text is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from html import escape
from pathlib import Path

from offsite.model.untrusted.text import printable

STYLE_FILE = Path(__file__).parent / "offsite.css"


class VerdictStyle(StrEnum):
    """Names of style classes."""

    GOOD = "good"
    BAD = "bad"
    WARN = "warn"


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page. `parts` are HTML."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>\n{_style()}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


def text(said: str) -> str:
    """Foreign names as HTML that any reader can bear: a page with invalid UTF-8 cannot be stored."""
    return escape(printable(said))


def verdict(said: str, kind: VerdictStyle) -> str:
    return f'<p class="verdict {kind}">{text(said)}</p>'


def tag(said: str, kind: VerdictStyle) -> str:
    return f'<span class="tag {kind}">{text(said)}</span>'


def facts(named: Mapping[str, str]) -> str:
    """Texts with their names."""
    pairs = (f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in named.items())
    return "<dl>\n" + "\n".join(pairs) + "\n</dl>"


def items(said: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{text(line)}</li>" for line in said) + "</ul>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_from: int = 99, label: str = "Table") -> str:
    """`rows` hold HTML. Columns from number `numbers_from` on are right-aligned."""
    lines = [_row("th", head, numbers_from)] if head else []
    body = [*lines, *(_row("td", row, numbers_from) for row in rows)]
    return "\n".join(
        [f'<div class="scroll" tabindex="0" role="region" aria-label="{text(label)}"><table>', *body, "</table></div>"]
    )


def figure(title: str, shown: str, note: str, values: str = "") -> str:
    """A plot with its title and a note below. `shown`, `values`: HTML."""
    below = f'<p class="soft">{text(note)}</p>\n' if note else ""
    return f'<figure class="plot"><figcaption>{text(title)}</figcaption>\n{shown}\n{below}{values}</figure>\n'


def _row(name: str, cells: Sequence[str], numbers_from: int) -> str:
    opened = [f'<{name} class="number">' if at >= numbers_from else f"<{name}>" for at in range(len(cells))]
    return "<tr>" + "".join(f"{start}{cell}</{name}>" for start, cell in zip(opened, cells, strict=True)) + "</tr>"


@cache
def _style() -> str:
    return STYLE_FILE.read_text()
