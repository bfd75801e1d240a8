#!/bin/sh
# Makes .venv and installs the locked versions and Everview itself. PYTHON=… chooses the Python.
set -eu
cd "$(dirname "$0")/.."

is_new_enough() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

python=
for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14 python}; do
    if is_new_enough "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    echo "setup: Everview needs Python 3.11 or newer; found: $(python3 --version 2>/dev/null || echo none)." >&2
    echo "setup: install one (Debian 12+, Ubuntu 24.04+: apt-get install python3 python3-venv)," >&2
    echo "setup: or name one: make setup PYTHON=/path/to/python3.11" >&2
    exit 1
fi

# Debian and Ubuntu ship Python without the part that puts pip into a new environment.
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "setup: installing $package"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    else
        echo "setup: $python has no venv module. Run this, then make again:" >&2
        echo "setup:     sudo apt-get install $package" >&2
        exit 1
    fi
fi

# A .venv whose Python is gone, too old or half made cannot be mended, only made again.
if ! is_new_enough .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    rm -rf .venv
    echo "setup: making .venv with $("$python" --version)"
    "$python" -m venv .venv
fi

pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }
echo "setup: installing the versions in requirements.lock"
pip install --quiet -r requirements.lock
# The build tools are in the lock, hence no isolated build that would fetch them again.
pip install --quiet --no-deps --no-build-isolation -e .
