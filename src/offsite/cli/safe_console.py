"""The console of all views: text is shown as it is, whoever chose it, and none of it is a command to the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from offsite.model.untrusted.printable import printable

__all__ = ["SafeConsole"]


class SafeConsole(Console):
    """A console without markup and emoji codes, which escapes what is not printable. Line breaks are escaped too: those
    of our own come in through `sep`.

    All strings pass `render_str`, those in cells of tables as well. A `Text` does not: views make none of others' text.
    """

    def render_str(self, text: str, **style: Any) -> Text:  # noqa: ANN401  # whatever rich passes on
        return super().render_str(printable(text), **{**style, "markup": False, "emoji": False})
