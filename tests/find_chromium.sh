#!/usr/bin/env bash
# The tests of pages need chromium: installed here where that can be done, else it is said how to get it.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" > /dev/null; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium > /dev/null
else
  echo "The tests of pages need chromium: install chromium (Debian, Ubuntu) or its like." >&2
  exit 1
fi
