#!/usr/bin/env bash
# Examples train on a GPU as on the CPU: the image example in f32 and bf16 (the losses of its first
# steps), the README's loop, and the networks of PaddlePaddle's guides. On the CPU emulator of CUDA.
# usage: example_on_device.sh VIT_PROGRAM MLP_PROGRAM SIMPLE_NET_PROGRAM CUDA_MODULE
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

losses() {  # DEVICE PRECISION
  local set settings=(device="$1" booster.mixed_precision="$2" train.output_dir="$work/$1_$2"
    train.max_steps=3 train.log_every=1 data.batch_size=4 data.root=null
    model.name=vit_tiny_patch16_224 model.depth=1 model.img_size=32)
  for set in "${settings[@]}"; do set -- "$@" --set "$set"; done
  "$vit" "${@:3}" > "$work/said" 2>&1 || { cat "$work/said" && exit 1; }
  grep -o '"loss":[0-9.eE+-]*' "$work/$1_$2/metrics.jsonl" | cut -d: -f2
}
# Compares two columns of numbers.
compare() {  # TITLE LINES MOST
  echo "$1:"
  paste -d' ' "$work/cpu" "$work/cuda" | awk -v most="$3" -v lines="$2" '
    { apart = ($1 - $2) / $1; if (apart < 0) apart = -apart; print "  " $1 " " $2 }
    apart > worst { worst = apart }
    END { printf "  %d lines, worst %.1e\n", NR, worst; exit !(NR == lines && worst < most) }'
}

vit=$1 mlp=$2 simple_net=$3
export BOOSTER_CUDA_MODULE=$4 BOOSTER_CUDA_POISON=1 CUDA_ON_HOST_MEMORY=512 CUDA_ON_HOST_SEED=drawn
for precision in fp32 bf16; do
  # In bf16 the two round at other places: a sum of products is one operation there, and several
  # here.
  [[ $precision == fp32 ]] && most=1e-4 || most=1e-2
  losses cpu $precision > "$work/cpu"
  losses cuda $precision > "$work/cuda"
  compare "$precision" 3 $most
done

for device in cpu cuda; do
  "$mlp" fp32 $device | grep -oP 'accuracy \K[0-9.]+' > "$work/$device"
done
compare "accuracy of the loop" 1 0.01

sizes=(--width 32 --batch 16 --batches 2 --epochs 3 --accumulate 1)
for device in cpu cuda; do
  "$simple_net" "${sizes[@]}" --device $device | grep -oP '[0-9.]+x +\K[0-9.]+' > "$work/$device"
done
compare "simple_net" 4 1e-3
