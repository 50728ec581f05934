"""Makes tests/golden/booster/: files written by the safetensors library itself (0.8, PyTorch 2.15)."""

import pathlib

import timm
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

# Weights of a Vision Transformer for images of 32 x 32, and what timm makes of its positions for
# 48 x 48 and 16 x 16: their grids of 4 x 4 become 6 x 6 and 2 x 2.
torch.manual_seed(0)
small = timm.models.VisionTransformer(img_size=32, patch_size=8, embed_dim=16, depth=1, num_heads=2,
                                      num_classes=3)
torch.nn.init.normal_(small.pos_embed)
weights = {name: tensor.contiguous() for name, tensor in small.state_dict().items()}
save_file(weights, folder / "vit_32.safetensors")
save_file({f"pos_embed_{side}": timm.layers.resample_abs_pos_embed(
    small.pos_embed.detach(), (side // 8, side // 8)).contiguous() for side in (16, 48)},
    folder / "vit_32_positions.safetensors")
