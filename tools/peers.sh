#!/bin/sh
# Fetches the peers that cannot live beside Tidegate: peers.sh FOLDER.
#
# delta-spark takes another PySpark than ours and JARs from Maven Central, so it has a virtual
# environment and a folder of JARs of its own. hadoop-aws is a folder of JARs with which Spark opens S3 itself.
# Where Maven is missing a peer is left out with a word, and the tests that need it skip; with
# TIDEGATE_REQUIRE_PEERS=1 that is an error.
set -eu

folder=${1:?usage: peers.sh FOLDER}
here=$(dirname "$0")
spark=4.2.0
delta=4.4.0
hadoop=3.5.0

say() { printf 'peers: %s\n' "$*"; }

leave_out() {
    case ${TIDEGATE_REQUIRE_PEERS:-0} in
        '' | 0) say "$2: $1 is left out, and tests that need it will skip"; mkdir -p "$folder" ;;
        *) say "$2, and TIDEGATE_REQUIRE_PEERS is set" >&2; exit 1 ;;
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

maven() { retry mvn --quiet --batch-mode "$@"; }

copy_jar() { maven dependency:copy -Dartifact="io.delta:$1:$delta" -DoutputDirectory="$home/jars"; }

make_delta_spark() {
    home=$folder/delta-spark
    if [ -f "$home/ready-$delta-$spark" ]; then return 0; fi
    say "making $home: PySpark $spark and delta-spark $delta (about 450 MB, a minute or two)"
    rm -rf "$home"
    mkdir -p "$home/jars"
    if ! { copy_jar "delta-spark_${spark%.*}_2.13" && copy_jar delta-storage; }; then
        leave_out delta-spark "the JARs could not be had"
        return 0
    fi
    if ! { "${PYTHON:-python3}" -m venv "$home/venv" 2>/dev/null ||
        "${PYTHON:-python3}" -m virtualenv --quiet "$home/venv"; }; then
        leave_out delta-spark "a virtual environment could not be made"
        return 0
    fi
    if ! retry "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
        --retries 8 --timeout 60 "pyspark==$spark" "delta-spark==$delta" 'pyarrow>=20' 'pandas<3'; then
        leave_out delta-spark "PySpark and delta-spark could not be installed"
        return 0
    fi
    touch "$home/ready-$delta-$spark"
}

make_hadoop_aws() {
    home=$folder/hadoop-aws
    if [ -f "$home/ready-$hadoop" ]; then return 0; fi
    say "making $home: hadoop-aws $hadoop and what it needs (13 MB)"
    rm -rf "$home"
    mkdir -p "$home/jars"
    jars=$(cd "$home/jars" && pwd)
    if ! maven --file "$here/hadoop-aws.xml" dependency:copy-dependencies -DincludeScope=runtime \
        -DexcludeGroupIds=io.netty,org.slf4j,commons-codec,commons-logging,org.apache.httpcomponents \
        -Dhadoop.version="$hadoop" -DoutputDirectory="$jars"; then
        leave_out hadoop-aws "the JARs could not be had"
        return 0
    fi
    touch "$home/ready-$hadoop"
}

if [ -f "$folder/delta-spark/ready-$delta-$spark" ] && [ -f "$folder/hadoop-aws/ready-$hadoop" ]; then exit 0; fi
if ! command -v mvn >/dev/null 2>&1; then
    leave_out "delta-spark and hadoop-aws" "there is no mvn on the PATH"
    exit 0
fi
make_delta_spark
make_hadoop_aws
say "done"
