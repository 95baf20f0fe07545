"""A value that says: this plan, and no other. Whoever confirms sends it back; the plan is made again and compared.

No coordinator remembers a plan. So what a plan is made of is told with it in full: times as times, not as `2h-ago`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping

from offsite.model.errors import PlanChanged
from offsite.model.plain import plain


def confirmation_of(plan: object, *, but: tuple[str, ...] = (), **more: object) -> str:
    """32 hexadecimal digits of a plan and what else counts; `but` are fields that differ from one look to the next."""
    shown = plain(plan)
    kept = {name: value for name, value in shown.items() if name not in but} if isinstance(shown, Mapping) else shown
    text = json.dumps([kept, plain(more)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def check_confirmed(told: str, now: str) -> None:
    """Raises `PlanChanged` where `told` is not the value of the plan as it is `now`."""
    if not hmac.compare_digest(told.encode("utf-8", "replace"), now.encode()):
        raise PlanChanged(
            "what would be done now is not what was confirmed: nothing was done",
            hint="ask for the plan again, read it, and send the value of that one",
        )
