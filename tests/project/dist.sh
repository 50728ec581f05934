#!/usr/bin/env bash
# Checks that `meson dist` packs all files of git, and that the packed tree configures.
# usage: dist.sh SOURCE_FOLDER CONFIGURE_OPTION...
set -euo pipefail
tree=$1
shift
skip() {
  echo "skipped: $1"
  exit 77
}
command -v git >/dev/null || skip "no git"
git -C "$tree" rev-parse --verify --quiet HEAD >/dev/null || skip "no commit of git's here"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
run() { "$@" >"$root/log" 2>&1 || { cat "$root/log"; exit 1; }; }
run git clone --quiet --depth 1 "file://$(git -C "$tree" rev-parse --show-toplevel)" "$root/clone"
cd "$root/clone"
run meson setup build "$@"
run meson dist -C build --no-tests --formats gztar
archive=$(find build/meson-dist -name 'booster-*.tar.gz')
[[ -n $archive ]] || { echo "meson dist made no archive"; exit 1; }

tar -xzf "$archive" -C "$root"
unpacked=$root/$(basename "$archive" .tar.gz)
packed() { cd "$unpacked" && find . -type f | cut -c3- | sort; }
differing=$(diff <(git ls-files | sort) <(packed) || true)
[[ -z $differing ]] || { echo "git and the archive differ: $differing"; exit 1; }
cd "$unpacked"
run meson setup build "$@"
echo "$(git -C "$root/clone" ls-files | wc -l) files"
