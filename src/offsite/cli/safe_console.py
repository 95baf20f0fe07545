"""The console of all views: text is shown as is, whoever chose the text, and never acts as a terminal command."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from offsite.model.untrusted.text import printable

__all__ = ["SafeConsole"]


class SafeConsole(Console):
    """A console without markup and emoji codes, with escaped unprintable characters. Line breaks are escaped too:
    offsite's own come through `sep`.

    All strings pass `render_str`, also strings in cells of tables. A `Text` does not: views make no `Text` of foreign
    text.
    """

    def render_str(self, text: str, **style: Any) -> Text:  # noqa: ANN401  # passed on by rich
        return super().render_str(printable(text), **{**style, "markup": False, "emoji": False})
