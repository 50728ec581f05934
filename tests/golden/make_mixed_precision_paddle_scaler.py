#!/usr/bin/env python3
"""Writes tests/golden/mixed_precision/paddle_scaler.json: what PaddlePaddle itself does.

Needs PaddlePaddle 3.3.1 (the CPU build does) and NumPy < 2.4, since Paddle's message about a
decreased scale fails with later versions. paddle.amp.GradScaler disables itself on CPUs; its device
test is patched to report a GPU, and nothing else is changed.

usage: make_mixed_precision_paddle_scaler.py
"""
import json
import os
import random
import types

import paddle
from paddle.amp import grad_scaler

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "mixed_precision")


def with_gpu_place():
    place = types.SimpleNamespace(
        is_gpu_place=lambda: True, is_xpu_place=lambda: False, is_custom_place=lambda: False
    )
    grad_scaler._dygraph_tracer = lambda: types.SimpleNamespace(_expected_place=place)
    grad_scaler.amp_global_state().amp_dtype = "float16"


def run(options, pattern):
    """Trains w by SGD with lr 1 against gradients of 1, infinity in steps marked I."""
    zero = paddle.nn.initializer.Constant(0.0)
    w = paddle.create_parameter([1], "float32", default_initializer=zero)
    optimizer = paddle.optimizer.SGD(learning_rate=1.0, parameters=[w])
    scaler = paddle.amp.GradScaler(**options)
    scales, values = [], []
    for step in pattern:
        loss = (w * (float("inf") if step == "I" else 1.0)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
        scales.append(float(scaler._scale.numpy()[0]))
        values.append(float(w.numpy()[0]))
    state = scaler.state_dict()
    counts = [int(state["incr_count"]), int(state["decr_count"])]
    return {"options": options, "pattern": pattern, "scales": scales, "values": values,
            "counts": counts}


def scaler_cases():
    chance = random.Random(17)
    cases = []
    for _ in range(12):
        options = {
            "init_loss_scaling": chance.choice([1.0, 3.0, 128.0, 1024.0, 32768.0, 65536.0]),
            "incr_ratio": chance.choice([1.25, 2.0, 3.0]),
            "decr_ratio": chance.choice([0.5, 0.8, 0.1]),
            "incr_every_n_steps": chance.choice([1, 2, 3, 5]),
            "decr_every_n_nan_or_inf": chance.choice([1, 2, 3]),
            "use_dynamic_loss_scaling": chance.random() < 0.9,
        }
        pattern = "".join("I" if chance.random() < 0.35 else "F" for _ in range(24))
        cases.append(run(options, pattern))
    return cases


def write(name, content):
    with open(os.path.join(OUT, name), "w") as file:
        json.dump({"paddle": paddle.__version__, **content}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    with_gpu_place()
    write("paddle_scaler.json", {"cases": scaler_cases()})
