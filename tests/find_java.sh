#!/usr/bin/env bash
# Spark's tests need Java 17 or later: installed here where that can be done, else it is said how to get it.
set -euo pipefail
if command -v "${JAVA_HOME:+$JAVA_HOME/bin/}java" > /dev/null; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless > /dev/null
else
  echo "The tests of Spark need Java 17 or later: install openjdk-17-jre-headless (Debian, Ubuntu) or its like." >&2
  exit 1
fi
