"""Confirms exactly one plan: the caller sends the value back; the plan is made again and compared.

No coordinator stores a plan. So the answer holds all inputs of the plan in full: absolute times, not `2h-ago`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping

from offsite.model.errors import PlanChanged
from offsite.model.plain import plain


def make_confirmation(plan: object, *, but: tuple[str, ...] = (), **more: object) -> str:
    """Return 32 hexadecimal digits for a plan and further inputs. `but`: fields that vary between two readings."""
    shown = plain(plan)
    compared = (
        {name: value for name, value in shown.items() if name not in but} if isinstance(shown, Mapping) else shown
    )
    text = json.dumps([compared, plain(more)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def check_confirmed(sent: str, now: str) -> None:
    """Raises `PlanChanged` if `sent` is not the value of the present plan, `now`."""
    if not hmac.compare_digest(sent.encode("utf-8", "replace"), now.encode()):
        raise PlanChanged(
            "the plan has changed since it was confirmed: nothing was done",
            hint="request the plan again, read it, and send its new value",
        )
