#!/bin/sh
# Makes .venv-s3, where the tests find an S3 server (moto).
set -eu
cd "$(dirname "$0")/.."
echo "setup: making .venv-s3 for the tests against S3"
rm -rf .venv-s3
.venv/bin/python -m venv .venv-s3
.venv-s3/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -r requirements-s3.lock
