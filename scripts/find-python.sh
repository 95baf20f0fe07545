#!/bin/sh
# Prints the Python that offsite's environment is made with: the newest tried version that runs and can make one.
# Python 3.14 comes last: it works once every dependency has wheels for it.
oldest="3.11"
incomplete=""
for candidate in python3.13 python3.12 python3.11 python3 python3.14; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue
    if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        echo "$candidate"
        exit 0
    fi
    incomplete="$incomplete $candidate"
done
if [ -n "$incomplete" ]; then
    echo "error: no environment can be made with$incomplete: install its venv module (Debian, Ubuntu: python3-venv)" >&2
else
    echo "error: no Python $oldest or newer was found: install one and run make again" >&2
fi
exit 1
