#!/bin/sh
# Makes the development environment: setup.sh VENV.
#
# Needs a Python of 3.10 or newer and a package index that pip reaches, nothing else: where the
# interpreter cannot make a virtual environment by itself (Debian without python3-venv), virtualenv is
# brought in. Everything is pinned by requirements-dev.lock, the build tools included. Running it
# again on a half-made environment goes on from there.
set -eu

venv=${1:?usage: setup.sh VENV}
lock=requirements-dev.lock
wanted='import sys; sys.exit(sys.version_info < (3, 10))'

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# pip already retries a request; this retries the whole step, since large downloads break midway.
retry() {
    attempt=1
    until "$@"; do
        [ "$attempt" -lt 3 ] || return 1
        attempt=$((attempt + 1))
        say "that failed; attempt $attempt of 3"
    done
}

find_python() {
    for python in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.10 python3.14; do
        if "$python" -c "$wanted" >/dev/null 2>&1; then
            command -v "$python"
            return 0
        fi
    done
    return 1
}

make_venv() {
    "$python" -m venv --clear "$venv" >/dev/null 2>&1 && return 0
    say "$python makes no virtual environments by itself: bringing virtualenv"
    "$python" -m pip --version >/dev/null 2>&1 ||
        die "$python has neither venv nor pip. Install one of them (Debian, Ubuntu: python3-venv) and run again."
    helper=$(mktemp -d)
    trap 'rm -rf "$helper"' EXIT
    export PIP_ROOT_USER_ACTION=ignore
    retry "$python" -m pip install --quiet --disable-pip-version-check --target "$helper" virtualenv ||
        die "virtualenv could not be installed; is a package index within reach?"
    rm -rf "$venv"
    PYTHONPATH="$helper" "$python" -m virtualenv --quiet "$venv" ||
        die "virtualenv could not make $venv."
}

if "$venv/bin/python" -c "$wanted" >/dev/null 2>&1 && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    say "using $venv"
else
    python=$(find_python) || die "no Python of 3.10 or newer: '${PYTHON:-python3}' is \
$("${PYTHON:-python3}" --version 2>/dev/null || echo missing), and there is no python3.10 to python3.14 on the PATH. \
Install one, or name it: make PYTHON=/path/to/python3.12 ..."
    say "making $venv with $python ($("$python" --version))"
    make_venv
fi

pip_install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        --retries 8 --timeout 60 --no-build-isolation "$@"
}

# pip and setuptools go first, by their own lines of the lock: PySpark comes as source and is built with them.
say "installing what $lock pins (the first time: about 700 MB, some minutes)"
first=$venv/first.lock
awk '/^(pip|setuptools)==/ { on = 1 } on { print } on && !/\\$/ { on = 0 }' "$lock" >"$first"
retry pip_install --require-hashes -r "$first" || die "pip and setuptools could not be installed; is a package index within reach?"
retry pip_install --require-hashes -r "$lock" || die "not everything in $lock could be installed."

say "installing tidegate itself, editable"
retry pip_install --no-deps --editable . || die "tidegate itself could not be installed."
say "done"
