#!/bin/sh
# Whatever promises.txt quotes stands in its page, every test that it names is there, and every sentence of
# dblock-safety(7) has an entry. usage: promises.sh SOURCE_DIRECTORY
set -eu

[ $# -eq 1 ] || { echo "usage: $0 SOURCE_DIRECTORY" >&2; exit 2; }
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LC_ALL=C
export LC_ALL
. tests/names.sh

# shellcheck disable=SC2046 # the names of pages have no spaces
awk -f tests/promises.awk "$work/names" $(sed -n 's/^= //p' tests/promises.txt) tests/promises.txt
