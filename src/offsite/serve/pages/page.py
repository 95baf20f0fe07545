"""Pages are rendered from templates, and their forms are read. Every shown value is escaped, and passes `printable`,
so no page can forget either. A form is bounded, and accepted only with the secret word of its page.
"""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from offsite.model.errors import BadOption, NotAllowed
from offsite.model.ids import random_id
from offsite.model.units import format_duration, format_size, format_time
from offsite.model.untrusted.text import printable
from offsite.model.version import __version__
from offsite.reports.bar_plot import BarPlot
from offsite.reports.plot import TimePlot
from offsite.serve.pages.static_files import static_address
from offsite.serve.tokens import AccessRole, Caller
from offsite.serve.v1.requests import path_of, site_of

_FOLDER = Path(__file__).parent

_FIELDS_MAX = 200
WORD = "word"
ONCE = "once"
"""A field that every page fills with a new value: a form sent twice, by two clicks, starts one job."""


def page(request: Request, name: str, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> HTMLResponse:  # noqa: ANN401  # values of the template
    """Render the page `name`, with the common values of all pages. Links of a template start with `{{ base }}`, but for
    pages of the whole coordinator: login, logout, static files."""
    caller: Caller = request.state.caller
    guarded = request.app.state.guarded
    is_read_only = guarded.read_only or request.state.address.read_only
    site = site_of(request) if hasattr(request.state, "site") else None
    shared = {
        "caller": caller,
        "may": {role.name.lower(): caller.role >= role and not is_read_only for role in AccessRole},
        "can_plan": caller.role >= AccessRole.READ,
        "has_login": guarded.tokens is not None,
        "repository": site.settings.name if site else None,
        "is_several": site is None or bool(site.settings.name),
        "has_metastore": site is not None and site.settings.metastore is not None,
        "word": guarded.sessions.form_word(request.state.cookie),
        "once": random_id(16),
        "version": __version__,
        "base": site.settings.base if site else "",
        "here": path_of(request),
    }
    return HTMLResponse(_environment().get_template(name).render(**shared, **values), status_code=status)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "time": _time,
        "size": format_size,
        "duration": format_duration,
        "count": _count,
        "lines": _lines,
        "plot": _plot,
    }
    environment.globals["static"] = static_address
    return environment


def _shown(value: object) -> object:
    if isinstance(value, Markup):
        return value
    return printable(value) if isinstance(value, str) else value


def _lines(text: str) -> Markup:
    """A text of several lines, each escaped like other text."""
    return Markup("\n").join(printable(line) for line in text.splitlines())


def _plot(plot: TimePlot | BarPlot, *, is_brief: bool = False) -> Markup:
    """Plots escape their texts themselves."""
    return Markup(plot.html(is_brief=is_brief) if isinstance(plot, TimePlot) else plot.html())  # noqa: S704


def _time(time_ms: int) -> str:
    if time_ms <= 0:
        return "never"
    return Markup('<time datetime="{}">{} UTC</time>').format(
        format_time(time_ms), format_time(time_ms)[:19].replace("T", " ")
    )


def _count(number: int) -> str:
    return f"{number:,}"


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises `NotAllowed` for a foreign form, `BadOption`."""
    try:
        pairs = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except (UnicodeDecodeError, ValueError) as error:
        raise BadOption(f"this is not a form: {error}", hint="use the form of the page") from error
    fields = dict(pairs)
    if not request.app.state.guarded.sessions.is_form_word(fields.pop(WORD, ""), request.state.cookie):
        raise NotAllowed(
            "this form is not from this server, or it is from an earlier session", hint="load its page again"
        )
    return fields
