"""Which restores this installation goes on with: those that it began, and those that a person named.

What is remembered of a restore decides into which topics it writes, from where on, and which settings topics get at its
end, with the credentials of the cluster. Whoever may create objects in the repository can make such records up, and add
to those of a restore that is under way. So only what this installation wrote itself counts (see `own_writes`).
"""

from __future__ import annotations

from offsite.model.errors import RestoreRefused
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import targets_known
from offsite.repository.restores.topic_settings import newest_aside_key
from offsite.services.own_writes import is_written_here, note_written
from offsite.stores.store import Store


def is_begun_here(store: Store, layout: RestoreLayout) -> bool:
    """Whether this installation began the restore, or a person said that it goes on with it."""
    return is_written_here(store, layout.record_key)


def adopt(store: Store, layout: RestoreLayout) -> None:
    """A person said that this installation goes on with the restore: what is there of it now counts."""
    targets_key = layout.targets_key(max(targets_known(store, layout), 1))
    for key in (layout.record_key, targets_key, newest_aside_key(store, layout)):
        if (data := store.get(key)) is not None:
            note_written(store, key, data)


def check_own(store: Store, layout: RestoreLayout, key: str) -> None:
    """Raise `RestoreRefused` where `key` holds something that this installation did not write."""
    if not is_written_here(store, key):
        raise RestoreRefused(
            f"{key} was not written by this installation, and says what restore {layout.restore} is to do",
            hint=f"look at it; where none of yours wrote it, delete it and run the same command again; where another "
            f"installation of yours did: --resume {layout.restore}",
        )
