"""Access of users besides the present user and root to a file, by its status. Pure: the caller looks at the file."""

from __future__ import annotations

import os
import stat


def is_of_another(status: os.stat_result) -> bool:
    """Whether a user other than the present user and root owns the file, and can read and write the file whatever the
    mode."""
    return status.st_uid not in {0, os.geteuid()}


def can_others_write(status: os.stat_result) -> bool:
    """Whether a user other than the present user and root may write the file, by group or otherwise."""
    return is_of_another(status) or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def can_others_reach(status: os.stat_result) -> bool:
    """Whether a user other than the present user and root may read or write the file, by group or otherwise."""
    return is_of_another(status) or bool(status.st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def exposure(status: os.stat_result) -> str:
    """Return the warning for a file with a secret, with the remedy; empty where only the present user, root and the
    file's group have access."""
    if is_of_another(status):
        return "another user owns it: change the owner to this user, and run chmod 600"
    return "every user of this machine can read or change it: run chmod 600" if status.st_mode & stat.S_IRWXO else ""
