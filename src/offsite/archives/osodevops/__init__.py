"""Backups of osodevops/kafka-backup: manifest, segments, snapshot of groups; read and written."""

from offsite.archives.osodevops.reader import OsodevopsReader

__all__ = ["OsodevopsReader"]
