"""The `offsite` command of a backup whose catalogs follow each other quickly: what retention lets go can be collected
only behind a catalog, and those of a real one lie 100 commits apart."""

from __future__ import annotations

from offsite.cli.main import main
from offsite.repository import catalog

COMMITS_PER_CATALOG = 8

if __name__ == "__main__":
    catalog.COMMITS_PER_CATALOG = COMMITS_PER_CATALOG
    main()
