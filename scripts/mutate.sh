#!/usr/bin/env bash
# Measures what the tests see: makes small faults in the library, one at a time, and runs the tests
# until one fails: first the suite of the folder with the fault, then all others. Prints a line for
# each fault and the share that was seen.
#   scripts/mutate.sh [COUNT [FIRST [SEED]]]
# Fault n of a seed is always the same: a line left out, a condition turned round, or a number or
# bound off by one, in a source file of the library. COUNT faults from FIRST on (20, 0); SEED 1. It
# works on a copy of the last commit, `build-mutants/`; the tree itself is never changed.
# A fault that does not compile does not count. One that is not seen costs a run of all tests.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1-20} first=${2-0} seed=${3-1}
copy=$PWD/build-mutants
layers=(platform core parallel mixed_precision plugins booster)

[[ -e $copy ]] || git worktree add --detach --quiet "$copy"
git -C "$copy" checkout --quiet --detach "$(git rev-parse HEAD)"
git -C "$copy" reset --hard --quiet
build=$copy/build
[[ -e $build/build.ninja ]] ||
  meson setup "$build" "$copy" --native-file "$copy/scripts/batches.ini" -Dcuda=disabled \
    -Dbenchmarks=false > /dev/null
ninja -C "$build" > "$copy/build.log" || { tail -n 20 "$copy/build.log" >&2; exit 1; }

mapfile -t sources < <(cd "$copy" && git ls-files "${layers[@]}" | grep '\.cpp$')
# Prints FILE LINE KIND of fault $1.
choose() {
  (cd "$copy" && awk -v seed="$seed" -v number="$1" '
    BEGIN { srand(seed * 100003 + number) }
    { text[FILENAME ":" FNR] = $0; at[++n] = FILENAME ":" FNR }
    END {
      split("line condition bound", kinds, " ")
      start = int(rand() * n); kind = kinds[1 + int(rand() * 3)]
      for (i = 1; i <= n; ++i) {
        key = at[1 + (start + i) % n]; line = text[key]
        if (line ~ /^ *(\/\/|#|namespace|using|case|default|\}|return;)/ || line !~ /^  /) continue
        if (kind == "line")
          fits = line ~ /^ +[a-z_.>\[\]()-]+( =|\+\+|\(|\.)[^{}]*;$/ && line !~ /return/
        else if (kind == "condition")
          fits = line ~ /(if|while) \(/ && line ~ /(==|!=|&&|\|\|)/
        else
          fits = line ~ /( <=? | >=? | \+ 1| - 1)/ && line !~ /(<[a-z_]+>|template|#)/
        if (fits) { sub(/:/, " ", key); print key, kind; exit }
      }
    }' "${sources[@]}")
}
# Changes line $2 of file $1 by a fault of kind $3.
spoil() {
  case $3 in
    line) sed -i "$2s/^\( *\).*;\$/\1;/" "$1" ;;
    condition) sed -i "$2{s/==/!=/;t;s/!=/==/;t;s/&&/||/;t;s/||/\&\&/}" "$1" ;;
    bound)
      sed -i "$2{s/ < / <= /;t;s/ <= / < /;t;s/ > / >= /;t;s/ >= / > /;t
        s/ + 1/ + 2/;t;s/ - 1/ - 2/}" "$1"
      ;;
  esac
}
suite_of() {  # FILE: the tests of platform/ are in the suite tensor
  case $1 in
    platform/*) echo tensor ;;
    core/*) cut -d / -f 2 <<< "$1" ;;
    *) cut -d / -f 1 <<< "$1" ;;
  esac
}
passes() {  # builds what the selected tests need, and runs them
  meson test -C "$build" --maxfail 1 --num-processes "$(($(nproc) + 1))" --no-suite project "$@" \
    > "$copy/test.log" 2>&1
}

export OMP_WAIT_POLICY=passive TEST_SHARES=${TEST_SHARES:-0}
seen=0 made=0
for ((n = first; n < first + count; ++n)); do
  read -r file line kind < <(choose "$n")
  spoil "$copy/$file" "$line" "$kind"
  change=$(cd "$copy" && git diff --unified=0 | grep '^[-+] ' | tr -s ' ' | tr '\n' ' ')
  suite=$(suite_of "$file")
  if passes --suite "$suite" && passes --no-suite "$suite"; then
    made=$((made + 1)) verdict="NOT SEEN"
  elif grep -q '^FAILED: ' "$copy/test.log"; then
    verdict="does not compile"
  else
    made=$((made + 1)) seen=$((seen + 1))
    verdict="seen by $(awk '/(FAIL|TIMEOUT)/ { print $2, $3, $4; exit }' "$copy/test.log")"
  fi
  echo "$n $file:$line $kind: $verdict: $change"
  git -C "$copy" checkout --quiet .
done
((made == 0)) || echo "$seen of $made faults were seen"
