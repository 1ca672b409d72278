#!/bin/sh
# Writes requirements-dev.lock anew from pyproject.toml: lock.sh PYTHON.
#
# One file for every Python from 3.10 on, Linux and macOS: uv resolves for all of them at once. It
# names packages, versions and hashes, and no place to fetch them from.
set -eu

python=${1:?usage: lock.sh PYTHON}
lock=requirements-dev.lock
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
"$work/venv/bin/uv" pip compile pyproject.toml --all-extras --group dev \
    --universal --python-version 3.10 --generate-hashes --upgrade --quiet \
    --no-emit-index-url --no-emit-find-links \
    --custom-compile-command "make lock" --output-file "$work/lock"
if grep -nE '://|^-' "$work/lock"; then
    echo "lock: the lines above name a place to fetch from; $lock is left as it was" >&2
    exit 1
fi
cp "$work/lock" "$lock"
echo "lock: $(grep -c '==' "$lock") pins in $lock"
