"""Options for the participants of checkpoints: applications, and Zeebe clusters."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

from offsite.checkpoint.zeebe.address import ZeebeCluster, parse_address, parse_authorizations
from offsite.model.errors import BadOption, OffsiteError
from offsite.model.journal import warned
from offsite.model.machine import exposure, is_loopback
from offsite.model.options import Option, StampForm, parse_choice
from offsite.model.untrusted.text import NotUtf8, decode_text

if TYPE_CHECKING:
    from offsite.checkpoint.participants import Participants
    from offsite.repository.backup import Backup
    from offsite.repository.checkpoint_records import Stamping

_TOKEN_FILE_MAX_BYTES = 64 * 1024


class ParticipantWords(TypedDict, total=False):
    """Options of checkpoints that are opened to applications without transactions (`offsite_participant`)."""

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
    from offsite.repository.checkpoint_records import Stamping
    from offsite_participant.control import CONTROL_TOPIC

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


class ZeebeWords(TypedDict, total=False):
    """Options of checkpoints with participating Zeebe clusters."""

    zeebe: Annotated[
        Sequence[str] | None,
        Option(
            "A Zeebe cluster that takes a backup with the same id: http://HOST:9600 of its management API, or "
            "NAME=http://HOST:9600; may be repeated."
        ),
    ]
    zeebe_token_file: Annotated[
        str | None,
        Option("With --zeebe: a file with a line 'Bearer TOKEN' or 'Basic USER:PASSWORD', or 'NAME=Bearer TOKEN'."),
    ]


def parse_zeebe(words: ZeebeWords) -> tuple[ZeebeCluster, ...]:
    """Parse the participating clusters. Raises `BadOption` without secrets."""
    addresses, file = [parse_address(text) for text in words.get("zeebe") or ()], words.get("zeebe_token_file")
    if file is None:
        return tuple(ZeebeCluster(address=address) for address in addresses)
    if not addresses:
        raise BadOption("--zeebe-token-file works only with --zeebe", hint="add --zeebe http://HOST:9600")
    authorizations = parse_authorizations(_read(Path(file)))
    if strange := sorted(authorizations.keys() - {address.name for address in addresses} - {""}):
        raise BadOption(f"--zeebe-token-file names {', '.join(strange)}, but no --zeebe has that name")
    clusters = tuple(
        ZeebeCluster(address=address, authorization=authorizations.get(address.name, authorizations.get("", "")))
        for address in addresses
    )
    for cluster in clusters:
        if cluster.authorization and not cluster.address.is_tls and not is_loopback(cluster.address.host):
            warned("zeebe_in_clear", why="credentials are sent without TLS", participant=cluster.address.name)
    return clusters


def zeebe_participants(clusters: Sequence[ZeebeCluster], opened: Callable[[], Backup]) -> Participants:
    """Make participants of the clusters, for checkpoints of the backup that `opened` opens when a checkpoint is taken.
    Raises `BadOption` where two have the same name."""
    from offsite.checkpoint.participants import Participants
    from offsite.checkpoint.zeebe.client import ZeebeClient
    from offsite.checkpoint.zeebe.management import Management
    from offsite.checkpoint.zeebe.participant import ZeebeParticipant
    from offsite.repository.checkpoint_records import CheckpointEvent, CheckpointRecords

    def asked_at_ms(checkpoint: int) -> int | None:
        try:
            note = CheckpointRecords.of(opened()).note(checkpoint, CheckpointEvent.REQUESTED)
        except OffsiteError:
            return None
        return None if note is None else note.at_ms

    return Participants(
        [
            ZeebeParticipant(cluster.address.name, Management(ZeebeClient(cluster)), asked_at_ms=asked_at_ms)
            for cluster in clusters
        ]
    )


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            why, data = exposure(os.fstat(opened.fileno())), opened.read(_TOKEN_FILE_MAX_BYTES + 1)
        if why:
            warned("readable_by_others", why=f"it contains a secret, and {why}", file=file)
        if len(data) > _TOKEN_FILE_MAX_BYTES:
            raise BadOption(f"the file of --zeebe-token-file has more than {_TOKEN_FILE_MAX_BYTES} bytes")
        return decode_text(data)
    except OSError as error:
        raise BadOption(f"--zeebe-token-file cannot be read: {error.strerror}") from error
    except NotUtf8 as error:
        raise BadOption(f"--zeebe-token-file cannot be read: {error}") from None
