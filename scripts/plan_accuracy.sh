#!/usr/bin/env bash
# Plans trainings of small Vision Transformers and then runs them. Prints both images per second, by
# model, strategy and number of ranks, as rows of the table in docs/plan.md. Shows the accuracy of
# plans if the machine is otherwise idle.
# usage: scripts/plan_accuracy.sh [--set key=value ...], for the plan and the training
# environment: BUILD: the build folder; OUT: for results; STEPS: the number of training steps (40);
# SIDE: pixels of a side (64); LOADER_MS: the value of --loader-ms (0)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build} out=${OUT:-out/plan_accuracy} steps=${STEPS:-40}
rm -rf "$out"
mkdir -p "$out"
unset DATA

# MODEL PRECISION RANKS: prints "planned : trained" in images per second. Takes the median step of
# the training's second half.
compare() {
  local name=$1.$2.$3 plugin=single
  local run=("$build/examples/vit_caltech101")
  if [[ $3 != 1 ]]; then
    plugin=torch_ddp
    run=("$build/tools/booster" run --nproc_per_node "$3" "${run[@]}")
  fi
  local config=(--config examples/vit_caltech101.json --set "model.name=$1"
                --set "model.img_size=${SIDE:-64}" --set "booster.mixed_precision=$2"
                --set "booster.plugin=$plugin" --set lr_scheduler.warmup_steps=1 "${sets[@]}")
  "$build/tools/booster" plan "${config[@]}" --ranks-per-node "$3" \
    --loader-ms "${LOADER_MS:-0}" --json >"$out/$name.json"
  "${run[@]}" "${config[@]}" --set "train.output_dir=$out/$name" --set train.log_every=1 \
    --set "train.max_steps=$steps" --set train.checkpoint_every=0 --set train.epochs=1000 \
    >"$out/$name.log" 2>&1 || { cat "$out/$name.log"; exit 1; }
  local planned trained
  planned=$(sed 's/"all":\[.*//; s/.*"samples_per_second"://; s/[^0-9.e+-].*//' "$out/$name.json")
  trained=$(sed -n 's/.*"images_per_s":\([0-9.e+-]*\).*/\1/p' "$out/$name/metrics.jsonl" |
    tail -n $((steps / 2)) | sort -g | sed -n "$((steps / 4))p")
  awk -v p="$planned" -v t="$trained" \
    'BEGIN { printf "%.3g : %.3g (%+.0f %%)", p, t, 100 * (p / t - 1) }'
}

sets=("$@")
echo "| images/s, planned : trained | fp32 | bf16 | fp32, 2 ranks | bf16, 2 ranks |"
echo "|---|---|---|---|---|"
for model in vit_tiny_patch16_224 vit_small_patch16_224; do
  row="| $model |"
  for ranks in 1 2; do
    for precision in fp32 bf16; do row+=" $(compare $model $precision $ranks) |"; done
  done
  echo "$row"
done
