"""How applications without transactions take part in a checkpoint, as stated in its request."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.names import is_topic_name
from offsite.model.options import StampForm
from offsite.model.selection import is_readable
from offsite.model.untrusted.json_object import JsonObject, JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamping:
    """All writers of `topics` (patterns as in a selection) stamp their records, and hear of checkpoints by `form` in
    `control_topic`."""

    form: StampForm
    topics: tuple[str, ...]
    control_topic: str


def stamping_to_json(stamping: Stamping | None) -> dict[str, JsonValue]:
    """The field of a request, if any."""
    if stamping is None:
        return {}
    topics: list[JsonValue] = list(stamping.topics)
    return {"stamps": {"form": stamping.form.value, "topics": topics, "control_topic": stamping.control_topic}}


def stamping_from_json(request: JsonObject) -> Stamping | None:
    """Decode the field; None without the field. Raises the error of `request` for a damaged field."""
    if "stamps" not in request.fields:
        return None
    document = request.child("stamps")
    topics, control_topic = document.texts("topics"), document.text("control_topic")
    if not topics or not all(map(is_readable, topics)):
        raise document.wrong("topics", "patterns of topics")
    if not is_topic_name(control_topic):
        raise document.wrong("control_topic", "the name of a topic")
    return Stamping(form=_form(document), topics=topics, control_topic=control_topic)


def _form(document: JsonObject) -> StampForm:
    form = document.text("form")
    if form not in set(StampForm):
        raise document.wrong("form", " or ".join(StampForm))
    return StampForm(form)
