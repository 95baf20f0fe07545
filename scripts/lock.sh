#!/bin/sh
# Writes requirements/$1.txt: every package of that group with its hashes, for all platforms, from no named registry.
set -eu
group="$1"
case "$group" in
    runtime) set -- pyproject.toml --extra demo --extra pack ;;
    image) set -- pyproject.toml --extra operator --extra kubernetes --extra msk --extra notify --extra oauth --constraints requirements/dev.txt ;;
    serve) set -- pyproject.toml --extra serve --constraints requirements/dev.txt --constraints requirements/runtime.txt ;;
    dev) set -- --group dev --constraints requirements/runtime.txt ;;
    *) set -- --group "$group" ;;
esac
.venv/bin/uv pip compile "$@" --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --quiet --custom-compile-command "make lock" --output-file "requirements/$group.txt"
