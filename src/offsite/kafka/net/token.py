"""OAUTHBEARER tokens: asked from their source for each new connection, never kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

from offsite.kafka.config.config import TokenSource
from offsite.model.errors import KafkaAuthenticationFailed

_COMMAND_TIMEOUT_S = 30  # a token command that asks a person or hangs must not hang a backup


def read_token(source: TokenSource) -> str:
    """The token now. Raises `KafkaAuthenticationFailed`; the message never holds the command's output."""
    if source.static is not None:
        return source.static.reveal()
    token = _read_file(source.file) if source.file else _run(source.command)
    if not token.strip():
        raise KafkaAuthenticationFailed("the OAUTHBEARER token source gave nothing", hint="try it by hand")
    return token.strip()


def _read_file(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        raise KafkaAuthenticationFailed(f"cannot read the OAUTHBEARER token file {path}: {error.strerror}") from error


def _run(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise KafkaAuthenticationFailed(
            f"the OAUTHBEARER token command {command[:1]} failed: {type(error).__name__}", hint="try it by hand"
        ) from None
    return done.stdout
