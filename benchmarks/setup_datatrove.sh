#!/usr/bin/env bash
# Makes .venv-datatrove at the root of the repository, with what the curation benchmark compares with.
# The second run does nothing, unless one of the files that decide what is installed has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv-datatrove
pins=benchmarks/requirements-datatrove.txt
stamp=$venv/peers-installed
wanted=$(cat "$pins" benchmarks/setup_datatrove.sh | sha256sum)

if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    echo "$venv is up to date"
    exit
fi

"${PYTHON:-python3.11}" -m venv --clear "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$pins"
echo "$wanted" >"$stamp"
echo "$venv holds datatrove"
