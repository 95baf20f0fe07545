"""Chromium without a screen, and axe: fetched by npm into the user's cache, as `package-lock.json` pins them.

npm comes with a Python package, so nothing has to be installed for it. Another Chromium, such as Debian's, is used
where `OFFSITE_CHROMIUM` names it.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import brotli

from tests.fetched_tools import npm_ci

_HERE = Path(__file__).parent
_PINNED = ("package.json", "package-lock.json")
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/chromium/fonts/fonts</dir>
  <dir>{folder}/node_modules/dejavu-fonts-ttf/ttf</dir>
  <cachedir>{folder}/fonts-cache</cachedir>
  <alias><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
"""A machine may have no font at all, and the page of a form ends a browser that finds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chromium:
    """`environment`: where it finds the libraries and the fonts that came with it."""

    executable: Path
    axe: Path
    environment: dict[str, str] = field(default_factory=dict)


def chromium() -> Chromium:
    """The browser; fetched where it is not there yet. Raises `AssertionError` where npm cannot."""
    folder = _fetched()
    axe = folder / "node_modules" / "axe-core" / "axe.min.js"
    if given := os.environ.get("OFFSITE_CHROMIUM"):
        return Chromium(executable=Path(given), axe=axe)
    libraries = folder / "chromium" / "al2023" / "lib"
    return Chromium(
        executable=folder / "chromium" / "chromium",
        axe=axe,
        environment={"LD_LIBRARY_PATH": str(libraries), "FONTCONFIG_PATH": str(folder)},
    )


def _fetched() -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "offsite", "tools")
    caches.mkdir(parents=True, exist_ok=True)
    pinned = b"".join((_HERE / each).read_bytes() for each in _PINNED)
    folder = caches / f"browser-{hashlib.sha256(pinned).hexdigest()[:16]}"
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=caches, prefix=".browser-") as work:
                _fetch(Path(work, "whole"))
                Path(work, "whole", "fonts.conf").write_text(_FONTS.format(folder=folder))
                Path(work, "whole").rename(folder)
    return folder


def _fetch(folder: Path) -> None:
    folder.mkdir()
    for each in _PINNED:
        shutil.copy(_HERE / each, folder)
    npm_ci(folder)
    for packed in (folder / "node_modules" / "@sparticuz" / "chromium" / "bin").glob("*.br"):
        _unpack(packed, folder / "chromium")


def _unpack(packed: Path, into: Path) -> None:
    data, name = brotli.decompress(packed.read_bytes()), packed.name.removesuffix(".br")
    if name.endswith(".tar"):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(into / name.removesuffix(".tar"), filter="data")
        return
    into.mkdir(exist_ok=True)
    (into / name).write_bytes(data)
    (into / name).chmod(0o755)
    packed.unlink()
