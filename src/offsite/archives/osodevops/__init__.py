"""Backups of osodevops/kafka-backup: manifest, segments, snapshot of groups; read and written."""

from offsite.archives.osodevops.reader import OsodevopsReader
from offsite.archives.osodevops.writer import OsodevopsWriter

__all__ = ["OsodevopsReader", "OsodevopsWriter"]
