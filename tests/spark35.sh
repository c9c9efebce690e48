#!/usr/bin/env bash
# The tests of Spark with pyspark 3.5, in an environment of its own over the packages of .venv; `make spark35`.
# Spark Connect is left out: the server of 3.5 is a jar that is not in the package.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -e .venv-spark35/.installed ]; then
  "${PYTHON:-python3}" -m venv .venv-spark35
  .venv-spark35/bin/python -m pip install --quiet --disable-pip-version-check setuptools wheel packaging
  .venv-spark35/bin/python -m pip install --quiet --disable-pip-version-check 'pyspark==3.5.9' 'pandas>=2.2,<3'
  folder=$(.venv-spark35/bin/python -c 'import site; print(site.getsitepackages()[0])')
  packages='import sys; print(*[path for path in sys.path if path.endswith("site-packages")], sep="\n")'
  { echo "$PWD/src"; .venv/bin/python -c "$packages"; } > "$folder/of_ours.pth"
  touch .venv-spark35/.installed
fi
exec .venv-spark35/bin/python -m pytest -p no:cacheprovider -k "not connect and not page" "$@" \
  tests/engine/test_spark.py tests/engine/test_spark_session.py tests/adapters/test_spark.py \
  tests/adapters/test_spark_stream.py tests/stages/test_spark_bytes.py
