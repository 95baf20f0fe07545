"""Options for applications that take part in checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypedDict

from offsite.model.errors import BadOption
from offsite.model.options import Option, StampForm, parse_choice

if TYPE_CHECKING:
    from offsite.repository.checkpoint_records import Stamping


class ParticipantWords(TypedDict, total=False):
    """Options of checkpoints that are opened to applications without transactions (`offsite.participant`)."""

    participants: Annotated[
        StampForm | None,
        Option(
            "Include applications that stamp their records. They learn of a checkpoint from markers in their topics, "
            "or from the control topic, where each application acknowledges the checkpoint."
        ),
    ]
    participant_topics: Annotated[
        Sequence[str] | None,
        Option(
            "With --participants: the topics; all writers of these topics must take part. Names, globs, "
            "comma-separated."
        ),
    ]
    control_topic: Annotated[
        str | None,
        Option(
            "With --participants: the topic that announces the begin of the checkpoint.",
            shown_default="offsite-checkpoints",
        ),
    ]


def parse_participants(words: ParticipantWords) -> Stamping | None:
    """Parse how checkpoints are opened to applications; None: not opened. Raises `BadOption`, `BadName`."""
    from offsite.model.names import check_topic_name
    from offsite.model.selection import parse_selection
    from offsite.participant.control import CONTROL_TOPIC
    from offsite.repository.checkpoint_records import Stamping

    form, topics = words.get("participants"), words.get("participant_topics")
    control_topic = words.get("control_topic")
    if form is None:
        if topics or control_topic:
            raise BadOption(
                "--participant-topics and --control-topic work only with --participants",
                hint="add --participants markers, or --participants acks",
            )
        return None
    if not topics:
        raise BadOption(
            "--participants needs --participant-topics", hint="add --participant-topics 'orders,payments-*'"
        )
    return Stamping(
        form=parse_choice(StampForm, form),
        topics=parse_selection(topics).include,
        control_topic=CONTROL_TOPIC if control_topic is None else check_topic_name(control_topic),
    )
