"""Who besides this user and root can read or write a file, by its status. Pure: whoever looks at the file decides."""

from __future__ import annotations

import os
import stat


def is_of_another(status: os.stat_result) -> bool:
    """Whether another user than this one and root owns the file, and so may read and write it whatever its mode is."""
    return status.st_uid not in {0, os.geteuid()}


def can_others_write(status: os.stat_result) -> bool:
    """Whether another user than this one and root may write the file, be it by its group."""
    return is_of_another(status) or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def can_others_reach(status: os.stat_result) -> bool:
    """Whether another user than this one and root may read or write the file, be it by its group."""
    return is_of_another(status) or bool(status.st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def exposure(status: os.stat_result) -> str:
    """Why a file with a secret is told of, and what to do; empty where only this user, root and its group reach it."""
    if is_of_another(status):
        return "another user owns it: own it, and chmod 600"
    return "every user of this machine can read or change it: chmod 600" if status.st_mode & stat.S_IRWXO else ""
