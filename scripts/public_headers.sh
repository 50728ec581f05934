#!/usr/bin/env bash
# Lists the library's public headers: all that a header includes, directly or not.
#   scripts/public_headers.sh ROOT [HEADER]             prints them, a line each
#   scripts/public_headers.sh ROOT HEADER --install     copies them below include/booster-0.1 of the
#                                                       prefix that `meson install` names
set -euo pipefail
export LC_ALL=C  # the same sort order everywhere
cd "$1"
header=${2-booster/booster.h}
[[ -f $header ]] || { echo "public_headers: no such header; got $header" >&2; exit 1; }

# Prints the includes of this tree, whose names start at its root. The system's headers are not
# files here.
included_by() {
  local name
  sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]([^">]+)[">].*/\1/p' "$@" | sort -u |
    while read -r name; do
      [[ ! -e $name ]] || echo "$name"
    done
}

headers=() more=("$header")
while ((${#more[@]} > ${#headers[@]})); do
  headers=("${more[@]}")
  mapfile -t more < <({ printf '%s\n' "${headers[@]}"; included_by "${headers[@]}"; } | sort -u)
done

if [[ ${3-} == --install ]]; then
  target=$MESON_INSTALL_DESTDIR_PREFIX/include/booster-0.1
  mkdir -p "$target"
  cp --parents "${headers[@]}" "$target"
else
  printf '%s\n' "${headers[@]}"
fi
