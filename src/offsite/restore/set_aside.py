"""Settings that a restore sets aside during the write: recorded before the change, and given back when the restore
fails.

An existing topic gets its own settings back at once, whatever ended the run: the settings belong to its owner. The
exception: while a worker may still write, the settings would change its records; an error then names the command that
gives the settings back. A topic made by the restore keeps its protection until the same command finishes. A killed run
leaves both unchanged: the next run of the same command knows the originals from the record, never from the topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.kafka.config import KafkaConfig
from offsite.kafka.offsets import SETTLE_S
from offsite.model.clock import SystemClock
from offsite.model.errors import OffsiteError, RestoreTakenOver
from offsite.model.journal import decided, warned
from offsite.model.names import named
from offsite.repository.backup import Backup
from offsite.repository.local_memory import check_own, note_written
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreRecord
from offsite.repository.restores.topic_settings import (
    SetAsideSettings,
    TargetTopicSettings,
    encode_aside,
    get_aside,
    newest_aside_key,
    next_aside_key,
    put_aside,
)
from offsite.restore.unfinished_aside import (
    NAMED_MAX,
    UnfinishedRestore,
    decided_aside,
    describe_aside,
    unfinished_asides,
)
from offsite.restore.write.plan import TargetTopic
from offsite.stores.store import Store


@contextmanager
def set_settings_aside(
    backup: Backup,
    cluster: Cluster,
    record: RestoreRecord,
    *,
    check: Callable[[], None] = lambda: None,
    halt: Callable[[], bool] = lambda: True,
) -> Iterator[tuple[TargetTopicSettings, ...]]:
    """A block with other settings than the topics' own; its value are the settings. An exception that ends the block
    gives existing topics their own settings back, and describes the result: in its hint, or in a note for exceptions of
    other packages.

    `check` raises `RestoreTakenOver` once another process has taken the restore over: the other process needs the
    settings, and nothing is given back. `halt` stops all writers, and returns whether all have stopped. Otherwise
    nothing is given back either: a later record would get its time from the broker, or be refused.
    """
    store, layout = backup.record_store, RestoreLayout(backup=backup.layout, restore=record.restore)
    asides = _remembered(backup, cluster.admin, layout, record)
    settings = tuple(
        replace(topic_settings, at_end=asides[topic_settings.topic].originals)
        if topic_settings.topic in asides
        else topic_settings
        for topic_settings in record.settings
    )
    try:
        yield settings
        if asides:
            _put(store, layout, ())  # the topics have their own settings again: nothing is set aside any more
    except BaseException as error:
        is_quiet = halt()
        if not _is_still_ours(check):
            raise
        if is_quiet:
            notes = _given_back(store, layout, cluster, asides)
        else:
            notes = _left_aside(cluster.config, asides, why="workers were told to stop, but may still write")
        _tell(error, [*notes, *_kept_back(settings)])
        raise


def _is_still_ours(check: Callable[[], None]) -> bool:
    try:
        check()
    except RestoreTakenOver:
        return False
    except OffsiteError as error:
        warned("settings_put_back", why=f"it is unknown whether another process took the restore over: {error.message}")
    return True


def with_originals(
    settings: Sequence[TargetTopicSettings], targets: Sequence[TargetTopic], asides: Sequence[UnfinishedRestore]
) -> tuple[TargetTopicSettings, ...]:
    """The settings of topics left with temporary settings by another unfinished restore: the topics get the settings
    from before the unfinished restore. Unverified claims of foreign installations about earlier settings count for
    nothing."""
    decided_on = {topic_settings.topic: topic_settings for topic_settings in settings}
    current_configs = {target.topic: dict(target.configs) for target in targets if target.topic in decided_on}
    vouched = (other for other in asides if not other.is_claimed)
    for aside in (
        topic_aside for other in vouched for topic_aside in other.topics if topic_aside.topic in current_configs
    ):
        still_set = {name: value for name, value in aside.meanwhile if current_configs[aside.topic].get(name) == value}
        decided_on[aside.topic] = _with(decided_on[aside.topic], still_set, dict(aside.originals))
    return tuple(decided_on.values())


def put_back_command(aside: SetAsideSettings, kafka: KafkaConfig) -> str:
    """The command for a person to give the topic its own settings back."""
    sets = [f"{name}=[{value}]" if "," in value else f"{name}={value}" for name, value in aside.originals if value]
    drops = [name for name, value in aside.originals if value is None]
    parts = [
        f"kafka-configs.sh --bootstrap-server {','.join(map(str, kafka.bootstrap))} --alter --topic {aside.topic}",
        *([f"--add-config {','.join(sets)}"] if sets else []),
        *([f"--delete-config {','.join(drops)}"] if drops else []),
    ]
    return " ".join(parts)


def _remembered(
    backup: Backup, admin: ClusterAdmin, layout: RestoreLayout, record: RestoreRecord
) -> Mapping[str, SetAsideSettings]:
    """The original settings to give back to existing topics: the originals recorded by a killed run; the present
    settings if an earlier run has put them back; otherwise those of the decision. Settings changed by somebody else
    since are the topic's own. Records the originals before any change."""
    existing = {
        topic_settings.topic: topic_settings
        for topic_settings in record.settings
        if topic_settings.meanwhile and not topic_settings.create
    }
    if not existing:
        return {}
    recorded = get_aside(backup.record_store, layout)
    if recorded is not None:
        check_own(backup.record_store, layout, newest_aside_key(backup.record_store, layout))
    asides = {name: decided_aside(topic_settings) for name, topic_settings in existing.items()}
    current = admin.topic_configs(existing.keys() & admin.topics().keys())
    other_asides = _of_others(backup, record)
    if recorded is not None:
        asides = {
            name: _as_it_stands(topic_settings, current.get(name, {}), other_asides.get(name))
            for name, topic_settings in existing.items()
        }
        asides |= {aside.topic: aside for aside in recorded}
    asides = {
        name: _with_changes(aside, current[name], other_asides.get(name)) if name in current else aside
        for name, aside in asides.items()
    }
    if tuple(asides.values()) != recorded:
        _put(backup.record_store, layout, tuple(asides.values()))
    _take_over(backup, record, asides)
    return asides


def _with_changes(
    aside: SetAsideSettings, current: Mapping[str, str], other: SetAsideSettings | None
) -> SetAsideSettings:
    """A value set neither by the original, nor by this restore or an `other` restore, is the owner's change."""
    sets = [*aside.meanwhile, *(other.meanwhile if other else ())]
    originals = tuple(
        (name, value if current.get(name) == value or (name, current.get(name)) in sets else current.get(name))
        for name, value in aside.originals
    )
    return replace(aside, originals=originals)


def _of_others(backup: Backup, record: RestoreRecord) -> dict[str, SetAsideSettings]:
    unfinished = unfinished_asides(backup, but=record.restore)
    here = (aside for aside in unfinished if aside.record.cluster_id == record.cluster_id and not aside.is_claimed)
    return {topic_aside.topic: topic_aside for other in here for topic_aside in other.existing}


def _as_it_stands(
    settings: TargetTopicSettings, current: Mapping[str, str], other: SetAsideSettings | None
) -> SetAsideSettings:
    """Settings left by another unfinished restore are not the topic's own: the other restore has recorded the
    originals."""
    set_by_other, before = (dict(other.meanwhile), dict(other.originals)) if other else ({}, {})
    originals = tuple(
        (name, before[name] if name in before and set_by_other.get(name) == current.get(name) else current.get(name))
        for name, _ in settings.meanwhile
    )
    return SetAsideSettings(topic=settings.topic, meanwhile=settings.meanwhile, originals=originals)


def _take_over(backup: Backup, record: RestoreRecord, asides: Mapping[str, SetAsideSettings]) -> None:
    """Topics that another unfinished restore had set aside belong to this restore now: the other restore must not put
    settings back later. Records in a place where this restore writes nothing stay unchanged."""
    for other in (aside for aside in unfinished_asides(backup, but=record.restore) if not aside.is_elsewhere):
        remaining = tuple(topic_aside for topic_aside in other.existing if topic_aside.topic not in asides)
        if other.record.cluster_id == record.cluster_id and remaining != other.existing and not other.is_claimed:
            _put(backup.record_store, RestoreLayout(backup=backup.layout, restore=other.record.restore), remaining)


def _put(store: Store, layout: RestoreLayout, topics: tuple[SetAsideSettings, ...]) -> None:
    note_written(store, next_aside_key(store, layout), encode_aside(topics))
    put_aside(store, layout, topics)


def _given_back(
    store: Store,
    layout: RestoreLayout,
    cluster: Cluster,
    asides: Mapping[str, SetAsideSettings],
) -> Iterator[str]:
    """Give existing topics their own settings where the temporary ones still stand; yields sentences about the
    result."""
    if not asides:
        return
    try:
        SystemClock().sleep(SETTLE_S)  # brokers may still process requests that a worker sent before it was stopped
        _give_back(cluster.admin, asides)
    except OffsiteError as error:
        yield from _left_aside(cluster.config, asides, why=error.message)
        return
    yield f"{_join([*asides])} got their own settings back"
    try:
        _put(store, layout, ())
    except OffsiteError as error:
        warned(
            "settings_put_back",
            why=f"the change could not be recorded in the repository: {error.message}",
            restore=layout.restore,
        )


def _left_aside(kafka: KafkaConfig, asides: Mapping[str, SetAsideSettings], *, why: str) -> Iterator[str]:
    for topic in asides:
        warned("settings_left_aside", why=why, topic=topic)
    if asides:
        shown = list(asides.values())[:NAMED_MAX]
        texts = [
            f"{aside.topic} still has {describe_aside(aside)} ({put_back_command(aside, kafka)})" for aside in shown
        ]
        yield f"settings could not be set back ({why}): {'; '.join(texts)}; run the same command again to set them back"


def _give_back(admin: ClusterAdmin, asides: Mapping[str, SetAsideSettings]) -> None:
    current = admin.topic_configs(asides.keys() & admin.topics().keys())
    changes: dict[str, dict[str, str | None]] = {}
    for topic, configs in current.items():
        originals = dict(asides[topic].originals)
        ours = [name for name, value in asides[topic].meanwhile if configs.get(name) == value and name in originals]
        if ours:
            changes[topic] = {name: originals[name] for name in ours}
            decided(
                "settings_put_back", why="the restore failed or was interrupted", topic=topic, settings=",".join(ours)
            )
    if changes:
        admin.alter_topic_configs(changes)


def _kept_back(settings: Sequence[TargetTopicSettings]) -> Iterator[str]:
    """Topics made by this restore: without their protection, brokers might delete records already written."""
    new = [topic for topic in settings if topic.create and topic.meanwhile]
    if new:
        text = ", ".join(f"{name}={value}" for name, value in new[0].meanwhile)
        yield (
            f"{_join([topic.topic for topic in new])}, created by this restore, keeps {text} until the same command "
            "completes the restore"
        )


def _tell(error: BaseException, sentences: Sequence[str]) -> None:
    if isinstance(error, OffsiteError):
        error.hint = "; ".join(sentence for sentence in (error.hint, *sentences) if sentence)
        return
    for sentence in sentences:
        error.add_note(sentence)


def _with(
    settings: TargetTopicSettings, still_set: dict[str, str], originals: Mapping[str, str | None]
) -> TargetTopicSettings:
    at_end = dict(settings.at_end) | {name: originals[name] for name in still_set if name in originals}
    return replace(
        settings,
        meanwhile=tuple(sorted((still_set | dict(settings.meanwhile)).items())),
        at_end=tuple(sorted(at_end.items())),
    )


def _join(topics: Sequence[str]) -> str:
    return named(topics, most=NAMED_MAX)
