#!/bin/sh
# Finds the programs of a PostgreSQL server for the tests, or installs Debian's; writes where they are.
set -eu
cd "$(dirname "$0")/.."
programs() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | while read -r d; do [ -x "$d/initdb" ] && echo "$d"; done | tail -1; }
if [ -z "$(programs)" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "setup: installing postgresql for the tests of sinks"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null
    else
        echo "setup: the tests of sinks need a PostgreSQL server. Run this, then make again:" >&2
        echo "setup:     sudo apt-get install postgresql" >&2
        exit 1
    fi
fi
found=$(programs)
[ -n "$found" ] || { echo "setup: postgresql was installed, and there is no initdb in /usr/lib/postgresql" >&2; exit 1; }
mkdir -p .postgres
echo "$found" >.postgres/.ready
