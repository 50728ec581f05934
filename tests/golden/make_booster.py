"""Makes tests/golden/booster/: files written by the safetensors library itself (0.8, PyTorch 2.15)."""

import pathlib

import torch
from safetensors.torch import save_file

folder = pathlib.Path(__file__).parent / "booster"
folder.mkdir(exist_ok=True)

tensors = {
    "blocks.0.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4,
    "blocks.0.bias": torch.tensor([1.5, -2.25], dtype=torch.bfloat16),
    "half": torch.tensor([0.5, 65504.0, 6e-8], dtype=torch.float16),
    "double": torch.tensor([[1 / 3]], dtype=torch.float64),
    "steps": torch.tensor(7, dtype=torch.int64),
    "ids": torch.tensor([-1, 2], dtype=torch.int32),
    "bytes": torch.tensor([0, 255, 3], dtype=torch.uint8),
    "mask": torch.tensor([True, False, True]),
    "none": torch.zeros(0, 4),
    "naïve": torch.ones(1),
}
save_file(tensors, folder / "all_dtypes.safetensors", metadata={"format": "pt"})
save_file({"a": torch.ones(3, dtype=torch.float32)}, folder / "no_metadata.safetensors")
