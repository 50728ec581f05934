"""Golden numbers of trainings in double under PyTorch on a CPU.

    python tests/golden/make_fp64.py

Writes tests/golden/mixed_precision/fp64_training.json with PyTorch 2.15.0: for each network and
optimizer the loss of every step, and the parameters behind the last one. Gradients are clipped by
norm. `hashed` makes the same inputs and weights here and in tests/nn/golden.h.
"""
import json
import math

import torch

from make_bf16 import OUT, hashed

STEPS = 10


def network(name):
    layers = torch.nn
    if name == "rows":
        return layers.Sequential(layers.Linear(12, 16), layers.LayerNorm(16), layers.GELU(),
                                 layers.Linear(16, 16), layers.Tanh(), layers.Linear(16, 5))
    return layers.Sequential(layers.Conv2d(2, 4, 3, bias=False), layers.BatchNorm2d(4),
                             layers.ReLU(), layers.Conv2d(4, 3, 3), layers.ReLU(), layers.Flatten(),
                             layers.Linear(3 * 3 * 3, 5))


def optimizer(name, parameters):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)
    if name == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=0.003, momentum=0.5)
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)


def train(name, shape, rule):
    model = network(name).double()
    with torch.no_grad():
        for seed, p in enumerate(model.parameters()):
            scale = 0.05 if p.dim() < 2 else 1.5 / math.sqrt(p[0].numel())
            p.copy_(hashed(tuple(p.shape), seed).double() * scale + (p.dim() < 2) * 0.5)
    x, target = hashed(shape, 100).double(), torch.arange(shape[0]) * 3 % 5
    steps, losses, norms = optimizer(rule, model.parameters()), [], []
    for _ in range(STEPS):
        steps.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
        losses.append(loss.item())
        steps.step()
    parameters = [p.detach().flatten().tolist() for p in model.parameters()]
    return {"name": name, "optimizer": rule, "input": shape, "losses": losses, "norms": norms,
            "parameters": parameters}


if __name__ == "__main__":
    assert torch.__version__.startswith("2.15"), torch.__version__
    torch.set_num_threads(1)
    runs = [train(name, shape, rule) for name, shape in (("rows", (8, 12)), ("conv", (6, 2, 7, 7)))
            for rule in ("sgd", "adamw", "rmsprop")]
    (OUT.parent / "fp64_training.json").write_text(json.dumps(runs, separators=(",", ":")) + "\n")
