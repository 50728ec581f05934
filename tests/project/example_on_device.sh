#!/usr/bin/env bash
# Checks that the image example has the same first losses on a GPU as on the CPU, in f32 and bf16.
# Uses the CPU emulator of CUDA.
# usage: example_on_device.sh VIT_PROGRAM CUDA_MODULE
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

losses() {  # DEVICE PRECISION
  local set settings=(device="$1" booster.mixed_precision="$2" train.output_dir="$work/$1_$2"
    train.max_steps=3 train.log_every=1 data.batch_size=4 data.root=null
    model.name=vit_tiny_patch16_224 model.depth=1 model.img_size=32)
  for set in "${settings[@]}"; do set -- "$@" --set "$set"; done
  "$vit" "${@:3}" > "$work/said" 2>&1 || { cat "$work/said" && exit 1; }
  grep -o '"loss":[0-9.eE+-]*' "$work/$1_$2/metrics.jsonl"
}

vit=$1
export BOOSTER_CUDA_MODULE=$2 BOOSTER_CUDA_POISON=1 CUDA_ON_HOST_MEMORY=512 CUDA_ON_HOST_SEED=drawn
for precision in fp32 bf16; do
  # In bf16 the two round at other places: a sum of products is one operation there, and several
  # here.
  [[ $precision == fp32 ]] && most=1e-4 || most=1e-2
  losses cpu $precision > "$work/cpu"
  losses cuda $precision > "$work/cuda"
  echo "$precision:"
  paste -d: "$work/cpu" "$work/cuda" | awk -F: -v most=$most '
    { apart = ($2 - $4) / $2; if (apart < 0) apart = -apart; print "  " $2 " " $4 }
    apart > worst { worst = apart }
    END { printf "  %d steps, worst %.1e\n", NR, worst; exit !(NR == 3 && worst < most) }'
done
