#!/usr/bin/env bash
# Checks docs/architecture.md, "Adding things". A built-in strategy, plugin, optimizer, scheduler,
# model or subcommand is mentioned only in the files that its row names. Searches all layers of the
# library, without comments, for its type, its header and its name in quotes. Skips names that are
# also dtypes ("bf16"). One strategy may recommend another (`.instead`). An elementwise op is one
# row: with another row, all code that reads the table compiles.
# usage: adding_things.sh ROOT [COMPILER...]
set -euo pipefail
export LC_ALL=C  # the same sort order everywhere
shopt -s nullglob
cd "$1"
compiler=("${@:2}")
((${#compiler[@]} > 0)) || compiler=(c++)

layers=(platform kernels core parallel mixed_precision plugins booster tools)
dtypes=" fp32 fp16 bf16 fp8 fp64 "
no_types=" single fp32 auto "  # the default, and a name for other strategies

failures=0 count=0
complain() { echo "$1"; failures=$((failures + 1)); }
stop() { echo "$1" >&2; exit 1; }

# Prints lines as FILE:TEXT. Sentences in quotes may say "Adam"; names and headers become <name>,
# <header>.
code=$(grep -r --include='*.h' --include='*.cpp' --include='*.def' --include='*.cu' \
         --include=meson.build '' "${layers[@]}" |
  sed -E '/^[^:]*meson\.build:/ { s/#.*//; b }
    /\.instead/d; s|//.*||; s/"([a-z0-9_./]+)"/<\1>/g; s/"[^"]*"//g')
(($(wc -l <<<"$code") > 10000)) || stop "hardly any code was found; the search is broken"
table=$(sed -n '/^## Adding things$/,/^## /p' docs/architecture.md)

declare -A used
begin_row() {
  row=$1 used=() things=0
  (($(grep -cF "| $row |" <<<"$table") == 1)) || stop "docs/architecture.md: want one row '$row'"
  mapfile -t patterns < <(grep -F "| $row |" <<<"$table" |
    grep -oE '`[A-Za-z0-9_./<>*]+/[A-Za-z0-9_./<>*]+`' | tr -d '`')
}

# expect NAME FILE MENTION: checks that the row's files are those that match the regular expression
# MENTION or have NAME as a row of a table
expect() { expect_only "$1" "$2" "$3|\.def:.*\($1\)|meson\.build:.*'$1'"; }

expect_only() {
  local name=$1 file=$2 mention=$3 path pattern wanted fits
  things=$((things + 1)) count=$((count + 1))
  while read -r path; do
    fits=no
    for pattern in "${patterns[@]}"; do
      wanted=${pattern//<name>/$name}
      wanted=${wanted//<file>/$file}
      if [[ $path == $wanted ]]; then fits=yes used[$pattern]=1; fi  # unquoted: with its `*`
    done
    [[ $fits == yes ]] || complain "$path mentions $name; the row '$row' does not say so"
  done < <(grep -E "$mention" <<<"$code" | cut -d: -f1 | sort -u)
}

end_row() {
  local pattern
  ((things > 0)) || stop "nothing was found for the row '$row'; the search is broken"
  for pattern in "${patterns[@]}"; do
    [[ -v used[$pattern] ]] || complain "the row '$row' names $pattern, which mentions none of them"
  done
}

# The header itself, files that include it, and the meson.build that lists its source.
header_or_source() {
  echo "^$1:|<$1>|^${1%%/*}/.*meson\.build:.*['/]$(basename "$1" .h)\.cpp'"
}

header_with() {  # TEXT FOLDER...
  local headers
  mapfile -t headers < <(grep -rlF --include='*.h' "$@")
  ((${#headers[@]} == 1)) || stop "want one header with '$1'; got ${headers[*]:-none}"
  echo "${headers[0]}"
}

# TYPE NAME of each entry<TYPE...>("NAME"
entries_of() {
  tr -s '\n' ' ' <"$1" | grep -oE 'entry<\w+[^>]*>\( *"\w+"' |
    sed -E 's/entry<(\w+)[^"]*"(\w+)"/\1 \2/'
}

strategies_or_plugins() {  # KIND BASE ROOM
  local name header types mention
  for name in $(sed -nE "s/^$1\((\w+)\).*/\1/p" booster/config/builtins.def); do
    [[ $no_types != *" $name "* ]] || continue
    header=$(header_with "return \"$name\"" "$3")
    types=$(sed -nE "s/.*class (\w+) : public \w*$2\b.*/\1/p" "$header" | paste -sd'|')
    [[ -n $types ]] || stop "$header: no class derived from $2"
    mention="$(header_or_source "$header")|\b($types)\b"
    [[ $dtypes == *" $name "* ]] || mention+="|<$name>"
    expect "$name" "$(basename "$header" .h)" "$mention"
  done
}

# Kernels with an op of the same name, one source for CPUs and one for GPUs.
begin_row "an op with its own kernel and CUDA twin"
for name in cumsum group_norm softmax; do
  kernel="\\b(KERNEL|OURS)\\($name,|\\bvoid $name\\(|^kernels/meson\\.build:.*/$name'"
  expect "$name" "$name" "$kernel|\\bOp::$name\\b|\\) *\\.$name\\(|^[^:]*\\.h:Tensor $name\\("
done
end_row

# A copy of the table with one more row comes before the table itself.
new_op=$(mktemp -d)
trap 'rm -r "$new_op"' EXIT
mkdir "$new_op/kernels"
sed 's/^UNARY(square, .*/&\nUNARY(cube, x * x * x, choose(x == T(0), T(0), T(3) * g * x * x))/' \
  kernels/elementwise.def >"$new_op/kernels/elementwise.def"
grep -q '^UNARY(cube' "$new_op/kernels/elementwise.def" || stop "no row could be added to the table"
compile_with_new_op() {
  local source=$1
  shift
  "$@" "$source" || { echo "$source does not compile with a new elementwise op"; return 1; }
}
export -f compile_with_new_op
mapfile -t readers < <(grep -rlE --include='*.cpp' \
  'elementwise\.def|elementwise_math\.h|tensor_formula\.h|case UnaryOp::|elementwise/cpu_map' \
  "${layers[@]}" tests/autograd tests/mixed_precision)
((${#readers[@]} >= 8)) || stop "hardly anything reads the table; got ${readers[*]}"
printf '%s\n' "${readers[@]}" |
  xargs -P "$(nproc)" -I{} bash -c 'compile_with_new_op "$@"' compile {} "${compiler[@]}" \
    -I"$new_op" -I. -std=c++20 -fsyntax-only -fopenmp -Wall -Wextra -Werror \
    -DBOOSTER_VARIANT=portable || failures=$((failures + 1))
count=$((count + 1))

begin_row "a precision strategy"
strategies_or_plugins STRATEGY Precision mixed_precision
end_row
begin_row "a plugin"
strategies_or_plugins PLUGIN Plugin plugins
end_row
begin_row "an optimizer"
while read -r type name; do
  source=$(grep -rlE "^$type::$type\(" core/optim) || stop "want a source with $type::$type"
  mention="^$source:|meson\.build:.*['/]$(basename "$source")'|<$name>|\b$type(Options)?\b"
  expect "$name" "$(basename "$source" .cpp)" "$mention"
done < <(entries_of booster/config/tables/optimizers.cpp)
end_row
begin_row "a learning-rate scheduler"
while read -r type name; do
  expect "$name" lr_scheduler "\b$type\b"
done < <(entries_of booster/config/tables/lr_schedulers.cpp)
end_row
begin_row "a model"
for source in core/nn/models/*.cpp; do
  name=$(basename "$source" .cpp)
  mention="$(header_or_source "core/nn/models/$name.h")|\bmodels::$name\w*\("
  expect "$name" "$name" "$mention|^core/nn/models\.h:Model $name\w*\(|^$source:"
done
end_row
begin_row "a subcommand of \`booster\`"
while read -r name; do
  expect_only "$name" "$name" \
    "\b${name}_command\b|COMMAND\($name,|^tools/commands/meson\.build:.*'$name\.cpp'"
done < <(sed -nE 's/^COMMAND\((\w+).*/\1/p' tools/commands/commands.def)
end_row

echo "$count built-ins, $failures problems"
((failures == 0))
