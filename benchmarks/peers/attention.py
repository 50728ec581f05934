"""PyTorch's milliseconds for the shapes of benchmarks/attention.cpp, from the same packed layout."""

import time

import torch
import torch.nn.functional as F

torch.set_num_threads(2)


def least(runs, function):
    best = 1e9
    for _ in range(runs):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def measure(name, batch, heads, dtype, tokens=197, head_size=64, runs=20):
    qkv = torch.randn(batch, tokens, 3, heads, head_size, dtype=dtype, requires_grad=True)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    g = torch.randn(batch, tokens, heads, head_size, dtype=dtype).transpose(1, 2)
    out = F.scaled_dot_product_attention(q, k, v)

    def forward():
        with torch.no_grad():
            F.scaled_dot_product_attention(q, k, v)

    def backward():
        torch.autograd.grad(out, (q, k, v), g, retain_graph=True)

    print(f"{name:18} {str(dtype)[6:]:8} forward {least(runs, forward):7.2f} ms  backward {least(runs, backward):7.2f} ms")


for name, batch, heads in (("ViT-B/16 batch 8", 8, 12), ("ViT-Ti/16 batch 16", 16, 3)):
    for dtype in (torch.float32, torch.bfloat16):
        measure(name, batch, heads, dtype)
