"""What a view shows to people, as text."""

from __future__ import annotations

import io
from collections.abc import Iterable

from offsite.cli.output import Line, print_lines


def shown(lines: Iterable[Line]) -> str:
    """The printed lines and tables of a view."""
    text = io.StringIO()
    print_lines(lines, to=text)
    return text.getvalue()
