"""PyTorch's milliseconds for the shapes of benchmarks/attention.cpp, from the same packed layout."""

import os
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 2)))


def least(runs, function):
    best = 1e9
    for _ in range(runs):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def measure(name, batch, heads, tokens, head_size, causal, runs, dtype):
    qkv = torch.randn(batch, tokens, 3, heads, head_size, dtype=dtype, requires_grad=True)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    g = torch.randn(batch, tokens, heads, head_size, dtype=dtype).transpose(1, 2)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def forward():
        with torch.no_grad():
            F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def backward():
        torch.autograd.grad(out, (q, k, v), g, retain_graph=True)

    print(f"{name:25} {str(dtype)[6:]:8} forward {least(runs, forward):7.2f} ms  backward {least(runs, backward):7.2f} ms")


shapes = (
    ("ViT-B/16 batch 8", 8, 12, 197, 64, False, 20),
    ("ViT-Ti/16 batch 16", 16, 3, 197, 64, False, 20),
    ("causal 4 x 12 x 1024 x 64", 4, 12, 1024, 64, True, 5),
    ("causal 1 x 8 x 2048 x 128", 1, 8, 2048, 128, True, 5),
)
for shape in shapes:
    for dtype in (torch.float32, torch.bfloat16):
        measure(*shape, dtype)
