"""Golden numbers of trainings under PyTorch's bf16 autocast on a CPU.

    python tests/golden/make_bf16.py

Writes tests/golden/mixed_precision/bf16_training.json with PyTorch 2.15.0. For each network: the
gradients of the first step, which PyTorch rounds to bf16, and the loss of every step. `hashed` makes
the same inputs and weights here and in tests/nn/golden.h.
"""
import json
import math
import pathlib

import numpy as np
import torch

OUT = pathlib.Path(__file__).parent / "mixed_precision" / "bf16_training.json"
STEPS = 10


def hashed(shape, seed, low=-1.0, high=1.0):
    """Numbers in [low, high) that depend on position and seed only (an integer hash, 16 bits)."""
    n = math.prod(shape)
    h = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed * 40503 + 12345)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(3266489917)
    unit = (h >> np.uint32(16)).astype(np.float64) / 65536
    return torch.from_numpy((low + (high - low) * unit).astype(np.float32).reshape(shape))


def network(name):
    layers = torch.nn
    if name == "mlp":
        return layers.Sequential(layers.Linear(16, 32), layers.ReLU(), layers.Linear(32, 32),
                                 layers.ReLU(), layers.Linear(32, 10))
    return layers.Sequential(layers.Conv2d(2, 6, 3), layers.ReLU(), layers.Conv2d(6, 4, 3),
                             layers.ReLU(), layers.Flatten(), layers.Linear(4 * 5 * 5, 10))


def train(name, shape):
    model = network(name)
    with torch.no_grad():
        for seed, p in enumerate(model.parameters()):
            scale = 0.05 if p.dim() < 2 else 1.5 / math.sqrt(p[0].numel())
            p.copy_(hashed(tuple(p.shape), seed) * scale)
    x, target = hashed(shape, 100), torch.arange(shape[0]) * 3 % 10
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses, first = [], None
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        losses.append(loss.item())
        if first is None:
            first = [p.grad.flatten().tolist() for p in model.parameters()]
        optimizer.step()
    for gradient in first:
        assert all(torch.tensor(v).bfloat16().item() == v for v in gradient)
    gradients = [[float(f"{v:.6g}") for v in gradient] for gradient in first]
    return {"name": name, "input": shape, "losses": losses, "gradients": gradients}


if __name__ == "__main__":
    assert torch.__version__.startswith("2.15"), torch.__version__
    torch.set_num_threads(1)
    runs = [train("mlp", (64, 16)), train("conv", (16, 2, 9, 9))]
    OUT.write_text(json.dumps(runs, separators=(",", ":")) + "\n")
