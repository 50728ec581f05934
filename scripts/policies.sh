#!/usr/bin/env bash
# Trains every file of examples/policies on the small set of JPEG files, on one and on two ranks,
# from two seeds. Prints the mean loss of the last epoch over the seeds, next to fp32's on the same
# plugin.
# usage: scripts/policies.sh [--set key=value ...]
# environment: BUILD: the build folder; OUT: for results; SEEDS, by default "1 2"
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build} out=${OUT:-out/policies}
read -ra seeds <<<"${SEEDS:-1 2}"
# The files' learning rate is meant for 30 epochs. In 4 epochs half of it gives an equally low loss,
# which depends less on rounding.
size=(--set model.img_size=48 --set model.num_classes=8 --set train.epochs=4 --set train.log_every=1
      --set lr_scheduler.warmup_steps=16 --set optimizer.lr=0.00025 --set train.checkpoint_every=0)
rm -rf "$out"
mkdir -p "$out"
unset DATA

# NAME PLUGIN RANKS SEED: trains; shows the output if it fails.
train() {
  local folder=$out/$1.$2.$4 run=("$build/examples/vit_caltech101")
  [[ $3 == 1 ]] || run=("$build/tools/booster" run --nproc_per_node "$3" "${run[@]}")
  "${run[@]}" --config "examples/policies/$1.json" "${size[@]}" "${sets[@]}" \
    --set "booster.plugin=$2" --set "data.batch_size=$((32 / $3))" --set "train.seed=$4" \
    --set "train.output_dir=$folder" >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }
}
# FILES, one per seed: prints means over the seeds: the last epoch's loss, the skipped steps and the
# final accuracy.
summary() {
  awk -F'[:,}]' '{ delete value
                   for (i = 1; i < NF; ++i) { gsub(/[{"]/, "", $i); value[$i] = $(i + 1) } }
                 FNR == 1 { epoch = "" }
                 "lr" in value { if (value["epoch"] != epoch) sum[FILENAME] = steps = 0
                                 epoch = value["epoch"]; skipped[FILENAME] = value["skipped"]
                                 sum[FILENAME] += value["loss"]; ++steps }
                 "val_top1" in value { accuracy[FILENAME] = value["val_top1"] }
                 END { for (file in sum) { loss += sum[file] / steps; skips += skipped[file]
                                           top1 += accuracy[file]; ++files }
                       print loss / files, skips / files, top1 / files }' "$@"
}

sets=("$@")
mapfile -t policies < <(cd examples/policies && printf '%s\n' *.json | sed 's/\.json$//')
printf '%-22s %-10s %10s %9s %8s %9s %8s\n' policy plugin loss "of fp32's" skipped accuracy seconds
for plugin in single torch_ddp; do
  ranks=$([[ $plugin == single ]] && echo 1 || echo 2)
  for policy in fp32 "${policies[@]/#fp32/}"; do
    [[ -n $policy ]] || continue
    start=$(date +%s)
    for seed in "${seeds[@]}"; do
      train "$policy" "$plugin" "$ranks" "$seed"
      export DATA=${DATA:-$out/fp32.single.$seed/small_set}
    done
    mapfile -t files < <(printf "$out/$policy.$plugin.%s/metrics.jsonl\n" "${seeds[@]}")
    read -r loss skipped accuracy < <(summary "${files[@]}")
    [[ $policy == fp32 ]] && fp32=$loss
    ratio=$(awk "BEGIN { printf \"%.2f %%\", 100 * $loss / $fp32 }")
    printf '%-22s %-10s %10.4f %9s %8s %9.3f %8s\n' "$policy" "$plugin" "$loss" "$ratio" \
      "$skipped" "$accuracy" $(($(date +%s) - start))
  done
done
