#!/usr/bin/env bash
# Trains every file of examples/policies on the small set of JPEG files, alone and on two ranks, and
# prints each one's loss over the last epoch beside that of fp32 on the same plugin.
# usage: scripts/policies.sh [--set key=value ...]      (BUILD: the build folder, OUT: for results)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build} out=${OUT:-out/policies}
size=(--set model.img_size=48 --set model.num_classes=8 --set train.epochs=4 --set train.log_every=1
      --set lr_scheduler.warmup_steps=16 --set train.checkpoint_every=0)
rm -rf "$out"
mkdir -p "$out"
unset DATA

# NAME PLUGIN RANKS: trains, says how if it fails.
train() {
  local folder=$out/$1.$2 run=("$build/examples/vit_caltech101")
  [[ $3 == 1 ]] || run=("$build/booster/booster" run --nproc_per_node "$3" "${run[@]}")
  "${run[@]}" --config "examples/policies/$1.json" "${size[@]}" "${sets[@]}" \
    --set "booster.plugin=$2" --set "data.batch_size=$((32 / $3))" \
    --set "train.output_dir=$folder" >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }
}
# FILE: the mean loss of the last epoch's steps, and how many of all were skipped.
last_loss() {
  awk -F'[:,}]' '/"lr"/ { for (i = 1; i < NF; ++i) { gsub(/[{"]/, "", $i); value[$i] = $(i + 1) }
                   if (value["epoch"] != epoch) { epoch = value["epoch"]; sum = steps = 0 }
                   sum += value["loss"]; ++steps }
                 END { print sum / steps, value["skipped"] }' "$1"
}
last_accuracy() { grep -oP '"val_top1":\K[0-9.]+' "$1" | tail -1; }

sets=("$@")
mapfile -t policies < <(cd examples/policies && printf '%s\n' *.json | sed 's/\.json$//')
printf '%-22s %-10s %10s %9s %8s %9s %8s\n' policy plugin loss "of fp32's" skipped accuracy seconds
for plugin in single torch_ddp; do
  ranks=$([[ $plugin == single ]] && echo 1 || echo 2)
  for policy in fp32 "${policies[@]/#fp32/}"; do
    [[ -n $policy ]] || continue
    start=$(date +%s)
    train "$policy" "$plugin" "$ranks"
    export DATA=$out/fp32.single/small_set
    read -r loss skipped < <(last_loss "$out/$policy.$plugin/metrics.jsonl")
    [[ $policy == fp32 ]] && fp32=$loss
    ratio=$(awk "BEGIN { printf \"%.2f %%\", 100 * $loss / $fp32 }")
    printf '%-22s %-10s %10.4f %9s %8s %9.3f %8s\n' "$policy" "$plugin" "$loss" "$ratio" \
      "$skipped" "$(last_accuracy "$out/$policy.$plugin/metrics.jsonl")" $(($(date +%s) - start))
  done
done
