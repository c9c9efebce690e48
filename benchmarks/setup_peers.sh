#!/usr/bin/env bash
# Makes .venv-bench at the root of the repository, with the peers that the loader benchmark runs.
# The second run does nothing, unless one of the files that decide what is installed has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv-bench
pins=benchmarks/requirements-peers.txt
stamp=$venv/peers-installed
wanted=$(cat constraints.txt "$pins" benchmarks/setup_peers.sh | sha256sum)

if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    echo "$venv is up to date"
    exit
fi

torch_version() { "$venv/bin/python" -c 'from importlib.metadata import version; print(version("torch"))'; }

"${PYTHON:-python3.11}" -m venv --clear "$venv"
# torch comes first and alone, so that no peer's wishes have a say in which build it is.
"$venv/bin/python" -m pip install --quiet -c constraints.txt torch
before=$(torch_version)
"$venv/bin/python" -m pip install --quiet --no-deps -r "$pins"
after=$(torch_version)
if [[ $before != "$after" ]]; then
    echo "the peers replaced torch $before by $after: look at $pins" >&2
    exit 1
fi
echo "$wanted" >"$stamp"
echo "$venv holds the peers, with torch $after"
