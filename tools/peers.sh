#!/bin/sh
# Makes the environments of the peers that cannot live beside Tidegate: peers.sh FOLDER.
#
# delta-spark takes another PySpark than ours and JARs from Maven Central, so it has a virtual
# environment and a folder of JARs of its own. Where Maven is missing the peer is left out with a word,
# and the tests that need it skip; with TIDEGATE_REQUIRE_PEERS=1 that is an error.
set -eu

folder=${1:?usage: peers.sh FOLDER}
spark=4.2.0
delta=4.4.0
home=$folder/delta-spark

say() { printf 'peers: %s\n' "$*"; }

leave_out() {
    case ${TIDEGATE_REQUIRE_PEERS:-0} in
        '' | 0) say "$*: delta-spark is left out, and tests that need it will skip"; mkdir -p "$folder"; exit 0 ;;
        *) say "$*, and TIDEGATE_REQUIRE_PEERS is set" >&2; exit 1 ;;
    esac
}

retry() {
    attempt=1
    until "$@"; do
        [ "$attempt" -lt 3 ] || return 1
        attempt=$((attempt + 1))
        say "that failed; attempt $attempt of 3"
    done
}

copy_jar() {
    mvn --quiet --batch-mode dependency:copy -Dartifact="io.delta:$1:$delta" -DoutputDirectory="$home/jars"
}

if [ -f "$home/ready-$delta-$spark" ]; then exit 0; fi
command -v mvn >/dev/null 2>&1 || leave_out "there is no mvn on the PATH"
say "making $home: PySpark $spark and delta-spark $delta (about 450 MB, a minute or two)"
rm -rf "$home"
mkdir -p "$home/jars"
retry copy_jar "delta-spark_${spark%.*}_2.13" || leave_out "the JARs could not be had"
retry copy_jar delta-storage || leave_out "the JARs could not be had"
"${PYTHON:-python3}" -m venv "$home/venv" 2>/dev/null || "${PYTHON:-python3}" -m virtualenv --quiet "$home/venv" ||
    leave_out "a virtual environment could not be made"
retry "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --retries 8 --timeout 60 \
    "pyspark==$spark" "delta-spark==$delta" 'pyarrow>=20' 'pandas<3' ||
    leave_out "PySpark and delta-spark could not be installed"
touch "$home/ready-$delta-$spark"
say "done"
