#!/bin/sh
# Writes requirements.lock anew from pyproject.toml. No index or host is written into it.
set -eu
cd "$(dirname "$0")/.."
command -v uv >/dev/null || { echo "lock: needs uv; run: pip install uv" >&2; exit 1; }
{
    echo "# Exact versions of everything, for every platform. Made by \`make lock\`; change pyproject.toml, not this."
    uv pip compile --quiet --upgrade pyproject.toml --extra dev --universal \
        --python-version 3.11 --no-header --no-emit-index-url --no-emit-find-links
} >requirements.lock.new
mv requirements.lock.new requirements.lock
