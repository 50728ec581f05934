#!/usr/bin/env bash
# Checks BOOSTER_TUNE_PRODUCTS and BOOSTER_TUNED_PRODUCTS over several processes. The library's
# estimates are wrong here (CUDA_ON_HOST_CUBLAS=estimates): algorithm 2 is the fastest that runs;
# algorithm 3, the last one, does not run.
# usage: tuning.sh PROGRAM
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset BOOSTER_TUNE_PRODUCTS BOOSTER_TUNED_PRODUCTS WORLD_SIZE
export CUDA_ON_HOST_CUBLAS=estimates XDG_CACHE_HOME=$work/cache

fail() { echo "tuning: $*" >&2 && exit 1; }
cases='GPU: batches of products and linear layers*'
run() {  # [VARIABLE=VALUE...]: runs some products; messages go to $work/said
  env "$@" "$program" "-tc=$cases" < /dev/null > "$work/said" 2>&1
}
said() { grep -q "$1" "$work/said" || { cat "$work/said" && fail "did not say: $1"; }; }
silent() { ! grep -q 'booster: ' "$work/said" || { cat "$work/said" && fail "spoke"; }; }
choices() { sed '1,2d; /^end /d; s/ .*//' "$1" | sort | uniq -c | sed 's/^ *//'; }
seal() {  # FILE: appends the correct checksum
  local sum=$((0xCBF29CE484222325)) byte
  for byte in $(od -An -v -tu1 "$1"); do sum=$(((sum ^ byte) * 0x100000001B3)); done
  printf 'end %016x\n' "$sum" >> "$1"
}

run
silent
[[ ! -e $XDG_CACHE_HOME ]] || fail "times products that nobody wants timed"

run BOOSTER_TUNE_PRODUCTS=1
silent
file=$(echo "$XDG_CACHE_HOME"/booster/products-CUDA-on-the-host*.txt)
[[ -f $file ]] || fail "keeps no choices"
products=$(($(wc -l < "$file") - 3))
((products >= 8)) || fail "keeps $products choices; want those of all products"
[[ $(choices "$file") == "$products 2" ]] || { cat "$file" && fail "one is not the fastest"; }
cp "$file" "$work/first"

run BOOSTER_TUNE_PRODUCTS=1 CUDA_ON_HOST_CUBLAS=
silent
cmp "$file" "$work/first" || fail "chooses again"

# Two processes that start at once.
rm -r "$XDG_CACHE_HOME"
(work=$work/other && mkdir "$work" && run BOOSTER_TUNE_PRODUCTS=1) & other=$!
run BOOSTER_TUNE_PRODUCTS=1
wait "$other"
cmp "$file" "$work/first" || fail "two processes at once leave another file"
[[ $(ls "${file%/*}") == "${file##*/}"$'\n'"${file##*/}.lock" ]] || fail "leaves $(ls "${file%/*}")"

# The program obeys the file without timing. Algorithm 3 does not run, so others replace it.
head -n -1 "$work/first" | sed '3,$s/^2 /3 /' > "$file"
seal "$file"
cp "$file" "$work/refused"
run BOOSTER_TUNE_PRODUCTS=1
said 'refuses an algorithm that it has proposed'
run BOOSTER_TUNED_PRODUCTS="$work/refused" WORLD_SIZE=2
said 'refuses an algorithm that it has proposed'
run BOOSTER_TUNED_PRODUCTS="$work/first" WORLD_SIZE=2
silent

# A number without an algorithm, and a damaged file.
head -n -1 "$work/first" | sed '3,$s/^2 /99 /' > "$file"
seal "$file"
run BOOSTER_TUNE_PRODUCTS=1
sed '3s/^./0/' "$work/first" > "$file"
run BOOSTER_TUNE_PRODUCTS=1
said 'rewriting .*: it is damaged'
(($(grep -c 'rewriting ' "$work/said") == 1)) || fail "says it more than once"
cmp "$file" "$work/first" || fail "does not write a damaged file anew"
cp "$file" "$work/damaged"
echo >> "$work/damaged"
! run BOOSTER_TUNED_PRODUCTS="$work/damaged" || fail "takes a damaged file that was given"
said 'cannot be used: it is damaged'
! run BOOSTER_TUNED_PRODUCTS="$work/none" || fail "takes a file that is not there"
said 'cannot be used: there is no such file'
head -n -1 "$work/first" | sed '2s/CUDA on the host/another GPU/' > "$work/another"
seal "$work/another"
! run BOOSTER_TUNED_PRODUCTS="$work/another" || fail "takes the choices for another GPU"
said 'it has another subject; got another GPU, .* want CUDA on the host, '

# Several ranks, which could choose differently; and no folder to write to.
rm -r "$XDG_CACHE_HOME"
run BOOSTER_TUNE_PRODUCTS=1 WORLD_SIZE=2
said 'got several ranks, which do not time products'
[[ ! -e $XDG_CACHE_HOME ]] || fail "times products in a job of several ranks"
run BOOSTER_TUNE_PRODUCTS=1 XDG_CACHE_HOME="$work/first"
said 'cannot keep the algorithms'
(($(grep -c 'cannot keep' "$work/said") == 1)) || fail "says it more than once"

# The results equal those of untimed products, also for products that add to their output.
cases='GPU: drawn products agree*'
run BOOSTER_TUNE_PRODUCTS=1 CUDA_ON_HOST_CUBLAS= || { cat "$work/said" && fail "other numbers"; }
