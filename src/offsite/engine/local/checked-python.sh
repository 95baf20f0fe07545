#!/bin/sh
# The Python of executors whose archive came from a URL: runs it once it is the one that the driver was told of.
echo "$OFFSITE_ARCHIVE_SHA256  $OFFSITE_ARCHIVE" | sha256sum -c - > /dev/null 2>&1 || {
    echo "offsite: the archive $OFFSITE_ARCHIVE is not the one whose SHA-256 --spark-archive names" >&2
    exit 97
}
exec "$OFFSITE_ARCHIVE" "$@"
