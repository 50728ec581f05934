#!/usr/bin/env bash
# Goes from a fresh Debian 12 to a trained Vision Transformer: installs missing packages, builds,
# and trains on real JPEG files with the launcher.
#   scripts/demo.sh [fp32|bf16|fp16] [--set key=value] ...
# With the environment variable DATA (a folder with Caltech101) it trains on that, else on a small
# set that it creates. Running the same command again resumes from the checkpoint.
set -euo pipefail
cd "$(dirname "$0")/.."

precision=fp32
case ${1-} in
  fp32) shift ;;
  bf16 | fp16) precision=$1; shift ;;
  "" | --set) ;;
  *) echo "demo: unknown precision; got $1, want fp32, bf16 or fp16" >&2; exit 2 ;;
esac
case $precision in
  fp32) config=examples/vit_caltech101.json ;;
  *) config=examples/vit_caltech101_$precision.json ;;
esac
out=out/demo_$precision

scripts/packages.sh
[[ -e build/build.ninja ]] || meson setup build --native-file scripts/batches.ini
ninja -C build tools/booster all_examples

start=$SECONDS
build/tools/booster run --nproc_per_node 1 build/examples/vit_caltech101 \
  --config "$config" --set train.output_dir="$out" "$@"

accuracy=$(grep -o '"val_top1":[0-9.e-]*' "$out/metrics.jsonl" | tail -1 | cut -d: -f2)
awk -v accuracy="$accuracy" -v precision="$precision" -v seconds=$((SECONDS - start)) 'BEGIN {
  printf "\nvalidation accuracy %.1f %% in %s after %d s\n", 100 * accuracy, precision, seconds }'
cat <<TEXT
  $out/metrics.jsonl   loss, learning rate, speed and accuracy over the steps
  $out/curves.svg      the same as a picture
  $out/run.json        config, versions, machine, and the seconds that each activity took
  $out/checkpoint/     weights (safetensors), optimizer, random state
TEXT
