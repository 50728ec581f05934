"""Golden gradients of gradients of layers. Writes tests/golden/nn/second_derivatives.json.

    python tests/golden/make_second_derivatives.py

PyTorch 2.15.0 (CPU) made the committed file.
"""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from make_nn import hashed, numbers, write


def case(name, fn, *shapes):
    """Gradients of the sum of squared gradients of sum(fn(inputs)^2), with hashed inputs."""
    inputs = [hashed(shape, seed).requires_grad_() for seed, shape in enumerate(shapes)]
    with sdpa_kernel(SDPBackend.MATH):
        slopes = torch.autograd.grad(fn(*inputs).square().sum(), inputs, create_graph=True)
        penalty = sum(slope.square().sum() for slope in slopes)
        grads = torch.autograd.grad(penalty, inputs)
    return {"name": name, "shapes": shapes, "penalty": penalty.item(),
            "grads": [numbers(g) for g in grads]}


def attention(q, k, v, **options):
    return F.scaled_dot_product_attention(q, k, v, **options)


HEADS = [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)]

if __name__ == "__main__":
    write("second_derivatives.json", [
        case("softmax", lambda x: F.softmax(x, -1), (3, 5)),
        case("softmax_of_middle", lambda x: F.softmax(x, 1), (2, 4, 17)),
        case("log_softmax", lambda x: F.log_softmax(x, -1), (3, 5)),
        case("layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), (3, 6), (6,), (6,)),
        case("layer_norm_alone", lambda x: F.layer_norm(x, (2, 3), eps=1e-3), (4, 2, 3)),
        case("rms_norm", lambda x, w: F.rms_norm(x, (6,), w, 1e-3), (3, 6), (6,)),
        case("conv2d", lambda x, w, b: F.conv2d(x, w, b, padding=1), (2, 2, 4, 5), (3, 2, 3, 2),
             (3,)),
        case("conv2d_strided", lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (1, 2), 2),
             (1, 4, 5, 6), (2, 2, 3, 2)),
        case("conv1d", lambda x, w, b: F.conv1d(x, w, b, 2), (2, 3, 7), (4, 3, 3), (4,)),
        case("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 1), (1, 0), (1, 0),
                                                                    2), (1, 4, 3, 4),
             (4, 1, 3, 2), (2,)),
        case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), (2, 4, 3), (4,), (4,)),
        case("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (3, 2, 2, 2),
             (2,), (2,)),
        case("batch_norm_eval", lambda x, w, b: F.batch_norm(
            x, torch.tensor([0.2, -0.3]).double(), torch.tensor([0.5, 2.0]).double(), w, b),
             (3, 2), (2,), (2,)),
        case("attention", attention, *HEADS),
        case("attention_causal", lambda q, k, v: attention(q, k, v, is_causal=True),
             *[(1, 2, 4, 3)] * 3),
        case("attention_mask", lambda q, k, v, m: attention(q, k, v, attn_mask=m), *HEADS, (3, 5)),
        case("attention_packed", lambda x: attention(*x.permute(2, 0, 3, 1, 4)), (2, 4, 3, 2, 3)),
    ])
