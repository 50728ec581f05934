#!/usr/bin/env bash
# BOOSTER_TUNE_PRODUCTS and BOOSTER_TUNED_PRODUCTS, from process to process: the library's estimates
# are wrong here (CUDA_ON_HOST_CUBLAS=estimates): the fastest that can be run is algorithm 2; the
# last one, 3, cannot.
# usage: tuning.sh PROGRAM
set -euo pipefail
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset BOOSTER_TUNE_PRODUCTS BOOSTER_TUNED_PRODUCTS WORLD_SIZE
export CUDA_ON_HOST_CUBLAS=estimates XDG_CACHE_HOME=$work/cache

fail() { echo "tuning: $*" >&2 && exit 1; }
cases='GPU: batches of products and linear layers*'
run() {  # [VARIABLE=VALUE...]: some products; what is said goes to $work/said
  env "$@" "$program" "-tc=$cases" < /dev/null > "$work/said" 2>&1
}
said() { grep -q "$1" "$work/said" || { cat "$work/said" && fail "did not say: $1"; }; }
silent() { ! grep -q 'booster: ' "$work/said" || { cat "$work/said" && fail "spoke"; }; }
choices() { sed '1,2d; /^end /d; s/ .*//' "$1" | sort | uniq -c | sed 's/^ *//'; }
seal() {  # FILE: ends it with the right sum
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

# What the file says is done, without a look at the time; 3 cannot be, and others take its place.
head -n -1 "$work/first" | sed '3,$s/^2 /3 /' > "$file"
seal "$file"
cp "$file" "$work/refused"
run BOOSTER_TUNE_PRODUCTS=1
said 'refuses an algorithm that it has proposed'
run BOOSTER_TUNED_PRODUCTS="$work/refused" WORLD_SIZE=2
said 'refuses an algorithm that it has proposed'
run BOOSTER_TUNED_PRODUCTS="$work/first" WORLD_SIZE=2
silent

# A number that the library has no algorithm for, and a file that is damaged.
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

# Ranks could choose differently; no folder to write to.
rm -r "$XDG_CACHE_HOME"
run BOOSTER_TUNE_PRODUCTS=1 WORLD_SIZE=2
said 'got several ranks, which do not time products'
[[ ! -e $XDG_CACHE_HOME ]] || fail "times products in a job of several ranks"
run BOOSTER_TUNE_PRODUCTS=1 XDG_CACHE_HOME="$work/first"
said 'cannot keep the algorithms'
(($(grep -c 'not kept' "$work/said") == 1)) || fail "says it more than once"

# Numbers are those of products that nobody times, also where something is added to what is there.
cases='GPU: drawn products agree*'
run BOOSTER_TUNE_PRODUCTS=1 CUDA_ON_HOST_CUBLAS= || { cat "$work/said" && fail "other numbers"; }
