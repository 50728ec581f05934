"""Golden numbers of tests/nn from PyTorch and timm. Writes tests/golden/nn/*.json.

    python tests/golden/make_nn.py

Versions that made the committed files: PyTorch 2.15.0, timm 1.0.31 (CPU).

Inputs are not stored: `hashed` makes the same numbers here and in tests/nn/golden.h. Expected values
are computed in double, so that a comparison measures the error of the code under test alone.
"""
import json
import math
import pathlib

import numpy as np
import timm
import torch
import torch.nn.functional as F

OUT = pathlib.Path(__file__).parent / "nn"


def hashed(shape, seed, low=-1.0, high=1.0):
    """Numbers in [low, high) that depend on position and seed only (an integer hash, 16 bits)."""
    n = math.prod(shape)
    h = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed * 40503 + 12345)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(2246822519)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(3266489917)
    unit = (h >> np.uint32(16)).astype(np.float64) / 65536
    values = (low + (high - low) * unit).astype(np.float32)
    return torch.from_numpy(values.reshape(shape)).double()


def numbers(x):
    return [float(f"{v:.9g}") for v in x.detach().double().flatten().tolist()]


class Input:
    """One argument: hashed floating numbers, or whole ones given in full."""

    def __init__(self, *shape, low=-1.0, high=1.0, values=None, grad=True):
        self.shape, self.low, self.high, self.values, self.grad = shape, low, high, values, grad

    def tensor(self, seed):
        if self.values is not None:
            return torch.tensor(self.values, dtype=torch.int64).reshape(self.shape)
        return hashed(self.shape, seed, self.low, self.high).requires_grad_(self.grad)

    def spec(self):
        if self.values is not None:
            return {"shape": self.shape, "values": self.values}
        return {"shape": self.shape, "low": self.low, "high": self.high, "grad": self.grad}


def case(name, fn, *inputs):
    """Result and gradients of sum(result * weights), weights hashed with seed 99 (1 for a scalar)."""
    tensors = [given.tensor(seed) for seed, given in enumerate(inputs)]
    y = fn(*tensors)
    g = hashed(tuple(y.shape), 99) if y.dim() else torch.ones((), dtype=torch.float64)
    y.backward(g)
    return {"name": name, "inputs": [given.spec() for given in inputs],
            "shape": list(y.shape), "y": numbers(y),
            "grads": [numbers(t.grad) if t.grad is not None else None for t in tensors]}


def packed_attention(qkv):
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v)
    return y.transpose(1, 2).flatten(2)


def multi_head(x, in_weight, in_bias, out_weight, out_bias):
    layer = torch.nn.MultiheadAttention(12, 3, batch_first=True).double()
    parameters = {"in_proj_weight": in_weight, "in_proj_bias": in_bias,
                  "out_proj.weight": out_weight, "out_proj.bias": out_bias}
    return torch.func.functional_call(layer, parameters, (x, x, x), {"need_weights": False})[0]


def running(x, mean, var, weight, bias):
    mean, var = mean.detach().clone(), var.detach().clone()
    y = F.batch_norm(x, mean, var, weight, bias, training=True, momentum=0.3)
    return torch.cat([y.flatten(), mean, var])


FIVE = dict(values=[4, 0, 2, 2, 3, 1])
IGNORED = dict(values=[4, -100, 2, 2, -100, 1])
GRID = dict(values=[0, 3, 1, 2, 2, 0, 3, -1, 1, 0, 2, 3])


SIGNS = Input(4, 3, low=-1, high=1)


def functions():
    logits = Input(6, 5, low=-3, high=3)
    weight = Input(5, low=0.2, high=2, grad=False)
    image = Input(2, 4, 7, 6)
    unit = Input(4, 3, low=0.02, high=0.98)
    target = Input(4, 3, low=0, high=1, grad=False)
    heads = [Input(2, 3, n, 8, low=-2, high=2) for n in (5, 7, 7)]
    norm = [Input(6, low=0.5, high=1.5), Input(6)]
    return [
        case("softmax", lambda x: F.softmax(x, -1), Input(3, 7, low=-4, high=4)),
        case("softmax_of_middle", lambda x: F.softmax(x, 1), Input(2, 5, 3, low=-4, high=4)),
        case("log_softmax", lambda x: F.log_softmax(x, -1), Input(3, 7, low=-4, high=4)),
        case("gelu", F.gelu, Input(4, 33, low=-6, high=6)),
        case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), Input(4, 33, low=-6, high=6)),
        case("silu", F.silu, Input(4, 33, low=-6, high=6)),
        case("linear_gelu", lambda x, w, b: F.gelu(F.linear(x, w, b)),
             Input(2, 5, 9), Input(7, 9), Input(7)),
        case("layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), Input(3, 5, 6), *norm),
        case("layer_norm_of_two", lambda x: F.layer_norm(x, (5, 6), eps=1e-3), Input(3, 5, 6)),
        case("residual_layer_norm",
             lambda x, r, w, b: torch.cat([x + r, F.layer_norm(x + r, (6,), w, b, 1e-6)]),
             Input(3, 5, 6), Input(3, 5, 6), *norm),
        case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), image,
             Input(4, low=0.5, high=1.5), Input(4)),
        case("batch_norm_training", running, image, Input(4, grad=False),
             Input(4, low=0.5, high=2, grad=False), Input(4, low=0.5, high=1.5), Input(4)),
        case("batch_norm_eval", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, eps=1e-3), image,
             Input(4, grad=False), Input(4, low=0.5, high=2, grad=False),
             Input(4, low=0.5, high=1.5), Input(4)),
        case("conv2d", lambda x, w, b: F.conv2d(x, w, b), image, Input(5, 4, 3, 2), Input(5)),
        case("conv2d_patches", lambda x, w, b: F.conv2d(x, w, b, stride=3), Input(2, 3, 6, 9),
             Input(5, 3, 3, 3), Input(5)),
        case("conv2d_strided", lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (1, 2)), image,
             Input(3, 4, 3, 3)),
        case("conv2d_groups", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=2), image,
             Input(6, 2, 3, 3), Input(6)),
        case("conv2d_depthwise", lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=4), image,
             Input(4, 1, 3, 3), Input(4)),
        case("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), image),
        case("avg_pool2d", lambda x: F.avg_pool2d(x, (3, 2), (2, 2), (1, 1)), image),
        case("avg_pool2d_inside", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), image),
        case("max_pool2d_dilated", lambda x: F.max_pool2d(x, (2, 3), (2, 1), (1, 1), (3, 2)), image),
        case("max_pool2d_ceil", lambda x: F.max_pool2d(x, 3, 3, 1, ceil_mode=True), image),
        case("max_pool2d_ceil_dilated",
             lambda x: F.max_pool2d(x, 2, (2, 3), 0, (3, 1), ceil_mode=True), image),
        case("avg_pool2d_ceil", lambda x: F.avg_pool2d(x, 3, 3, 1, ceil_mode=True), image),
        case("avg_pool2d_ceil_inside",
             lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
             Input(2, 4, 8, 6)),
        case("conv_transpose2d", F.conv_transpose2d, image, Input(4, 5, 3, 2), Input(5)),
        case("conv_transpose2d_strided",
             lambda x, w: F.conv_transpose2d(x, w, None, (2, 3), (1, 0), (1, 2)), image,
             Input(4, 3, 3, 3)),
        case("conv_transpose2d_groups",
             lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, groups=2), image,
             Input(4, 3, 3, 3), Input(6)),
        case("conv_transpose2d_dilated",
             lambda x, w, b: F.conv_transpose2d(x, w, b, (1, 2), (2, 1), (1, 2), 1, (2, 3)), image,
             Input(4, 3, 3, 2), Input(3)),
        case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), image),
        case("attention", F.scaled_dot_product_attention, *heads),
        case("attention_causal",
             lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5),
             *[Input(2, 3, 6, 8, low=-2, high=2)] * 3),
        case("attention_masked", F.scaled_dot_product_attention, *heads,
             Input(2, 1, 5, 7, low=-3, high=3, grad=False)),
        case("attention_learned_mask", F.scaled_dot_product_attention, *heads,
             Input(1, 3, 5, 7, low=-3, high=3)),
        case("attention_packed", packed_attention, Input(2, 7, 3, 4, 8, low=-2, high=2)),
        case("multi_head_attention", multi_head, Input(2, 5, 12), Input(36, 12), Input(36),
             Input(12, 12), Input(12)),
        case("embedding", lambda w, i: F.embedding(i, w, padding_idx=2), Input(5, 3),
             Input(2, 3, **FIVE)),
        case("cross_entropy", F.cross_entropy, logits, Input(6, **FIVE)),
        case("cross_entropy_sum", lambda x, t: F.cross_entropy(x, t, reduction="sum"), logits,
             Input(6, **FIVE)),
        case("cross_entropy_each",
             lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.1), logits,
             Input(6, **IGNORED)),
        case("cross_entropy_ignored", F.cross_entropy, logits, Input(6, **IGNORED)),
        case("cross_entropy_smoothed", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
             logits, Input(6, **FIVE)),
        case("cross_entropy_weighted", lambda x, t, w: F.cross_entropy(x, t, w), logits,
             Input(6, **IGNORED), weight),
        case("cross_entropy_everything",
             lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.2), logits,
             Input(6, **IGNORED), weight),
        case("cross_entropy_grid", lambda x, t: F.cross_entropy(x, t, ignore_index=-1),
             Input(2, 4, 3, 2, low=-3, high=3), Input(2, 3, 2, **GRID)),
        case("cross_entropy_one", F.cross_entropy, Input(5, low=-3, high=3), Input(values=[3])),
        case("cross_entropy_probabilities",
             lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.1), logits,
             Input(6, 5, low=0, high=0.4, grad=False), weight),
        case("nll_loss", F.nll_loss, logits, Input(6, **FIVE)),
        case("nll_loss_weighted", lambda x, t, w: F.nll_loss(x, t, w), logits,
             Input(6, **IGNORED), weight),
        case("mse_loss", F.mse_loss, Input(4, 3), Input(4, 3)),
        case("mse_loss_each", lambda x, t: F.mse_loss(x, t, reduction="none"), Input(4, 3),
             Input(4, 3)),
        case("l1_loss", F.l1_loss, Input(4, 3), Input(4, 3)),
        case("smooth_l1_loss", lambda x, t: F.smooth_l1_loss(x, t, beta=0.5), Input(4, 3),
             Input(4, 3)),
        case("binary_cross_entropy_with_logits",
             lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w, pos_weight=p),
             Input(4, 3, low=-30, high=30), target, Input(3, low=0.5, high=2, grad=False),
             Input(3, low=0.5, high=3, grad=False)),
        case("binary_cross_entropy", F.binary_cross_entropy, unit, target),
        case("kl_div", F.kl_div, Input(4, 3, low=-3, high=0), target),
        case("kl_div_batch_mean", lambda x, t: F.kl_div(x, t, reduction="batchmean"),
             Input(4, 3, low=-3, high=0), Input(4, 3, low=0.1, high=1)),
        case("kl_div_log_target",
             lambda x, t: F.kl_div(x, t, reduction="sum", log_target=True),
             Input(4, 3, low=-3, high=0), Input(4, 3, low=-2, high=0)),
        case("huber_loss", lambda x, t: F.huber_loss(x, t, delta=0.5), Input(4, 3), Input(4, 3)),
        case("leaky_relu", lambda x: F.leaky_relu(x, 0.2), SIGNS),
        case("elu", lambda x: F.elu(x, 1.5), Input(4, 33, low=-6, high=6)),
        case("rms_norm", lambda x, w: F.rms_norm(x, (6,), w, 1e-5), Input(3, 5, 6),
             Input(6, low=0.5, high=1.5)),
        case("conv1d", lambda x, w, b: F.conv1d(x, w, b, 2, 1, 2, 2), Input(2, 4, 11),
             Input(6, 2, 3), Input(6)),
        case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), Input(2, 8, 3, 4)),
        case("interpolate_nearest", lambda x: F.interpolate(x, (11, 4)), image),
        case("interpolate_bilinear", lambda x: F.interpolate(x, (11, 4), mode="bilinear"), image),
        case("interpolate_bicubic", lambda x: F.interpolate(x, (11, 4), mode="bicubic"), image),
        case("interpolate_corners",
             lambda x: F.interpolate(x, (3, 13), mode="bicubic", align_corners=True), image),
        case("interpolate_bilinear_areas",
             lambda x: F.interpolate(x, (2, 13), mode="bilinear", antialias=True), image),
        case("interpolate_bicubic_areas",
             lambda x: F.interpolate(x, (3, 13), mode="bicubic", antialias=True), image),
        case("interpolate_scaled",
             lambda x: F.interpolate(x, scale_factor=(1.3, 0.7), mode="bilinear"), image),
        case("interpolate_scaled_areas",
             lambda x: F.interpolate(x, scale_factor=0.6, mode="bicubic", antialias=True), image),
        case("interpolate_scaled_corners",
             lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True),
             image),
        case("interpolate_nearest_scaled", lambda x: F.interpolate(x, scale_factor=(1.3, 2.2)),
             image),
        case("interpolate_nearest_exact",
             lambda x: F.interpolate(x, (11, 4), mode="nearest-exact"), image),
        case("interpolate_area", lambda x: F.interpolate(x, (3, 4), mode="area"), image),
        # rearrangements and reductions
        case("clamp", lambda x: torch.clamp(x, -0.25, 0.5), SIGNS),
        case("clamp_below", lambda x: torch.clamp(x, max=0.0), SIGNS),
        case("slice", lambda x: x[:, 1:-1:2], Input(3, 8, 2)),
        case("slice_outside", lambda x: x[-9:40:3], Input(7, 2)),
        case("flip", lambda x: torch.flip(x, (0, 2)), Input(3, 4, 5)),
        case("pad", lambda x: F.pad(x, (1, 2, 0, 3), value=0.5), Input(2, 3, 4)),
        case("pad_cuts", lambda x: F.pad(x, (-1, 2, 2, -1)), Input(2, 3, 4)),
        case("pad_reflect", lambda x: F.pad(x, (1, 3, 2, -1), mode="reflect"), Input(2, 3, 4)),
        case("pad_replicate", lambda x: F.pad(x, (2, 5, -1, 3), mode="replicate"), Input(2, 3, 4)),
        case("pad_circular", lambda x: F.pad(x, (3, -1, 1, 2), mode="circular"), Input(2, 3, 4)),
        case("diagonal", lambda x: torch.diagonal(x, 0, 2, 0), Input(3, 2, 3)),
        case("mask", lambda x: x[x[:, :, 0] > 0], Input(4, 3, 2)),
        case("masked_fill", lambda x, m: x.masked_fill(m > 0, -2.0), Input(3, 4, 5),
             Input(4, 5, grad=False)),
        case("tril", lambda x: torch.tril(x, 1), Input(2, 4, 5)),
        case("triu", lambda x: torch.triu(x, -1), Input(5, 4)),
        case("split_by_sizes", lambda x: torch.cat(torch.split(x, (1, 3, 2), 1)[::-1], 1),
             Input(2, 6, 3)),
        case("chunk", lambda x: torch.cat(torch.chunk(x, 3, -1)[::-1], -1), Input(2, 8)),
        case("unbind", lambda x: torch.unbind(x, 1)[1] * 2, Input(2, 3, 4)),
        case("norm", torch.norm, Input(4, 5)),
        case("norm_of_rows", lambda x: torch.linalg.vector_norm(x, 2, -1, keepdim=True), Input(4, 5)),
        case("norm_by_1", lambda x: torch.linalg.vector_norm(x, 1, (0, 2)), Input(3, 4, 5)),
        case("norm_by_3", lambda x: torch.linalg.vector_norm(x, 3, 1), Input(3, 4)),
        case("norm_by_infinity", lambda x: torch.linalg.vector_norm(x, math.inf, 1), Input(3, 4)),
        case("logsumexp", lambda x: torch.logsumexp(x, (0, 2)), Input(3, 4, 5, low=-9, high=9)),
        case("stddev", lambda x: torch.std(x, (1,)), Input(3, 6)),
        case("min", lambda x: torch.min(x, 1)[0], Input(3, 6)),
        case("max_of_all", torch.max, Input(3, 6)),
        case("var_biased", lambda x: torch.var(x, (0, 2), correction=0, keepdim=True),
             Input(3, 4, 5)),
        case("bmm", torch.bmm, Input(2, 3, 4), Input(2, 4, 5)),
        case("cumsum", lambda x: torch.cumsum(x, 1), Input(2, 5, 3)),
        case("cumsum_of_rows", lambda x: torch.cumsum(x, -1), Input(3, 300)),
        case("sort", lambda x: torch.sort(x, 1)[0], Input(3, 6, 2)),
        case("sort_descending", lambda x: torch.sort(x, descending=True)[0], Input(4, 40)),
        case("topk", lambda x: torch.topk(x, 3, 0)[0], Input(7, 4)),
        case("topk_smallest", lambda x: torch.topk(x, 40, largest=False)[0], Input(3, 70)),
        case("gather", lambda x, i: torch.gather(x, 1, i), Input(3, 5), Input(2, 3, **FIVE)),
        case("scatter", lambda x, i, s: torch.scatter(x, 1, i, s), Input(3, 5),
             Input(2, 3, values=[4, 0, 2, 1, 3, 0]), Input(2, 3)),
        case("scatter_value", lambda x, i: torch.scatter(x, 0, i, 1.5), Input(5, 3),
             Input(2, 3, **FIVE)),
        case("scatter_add", lambda x, i, s: torch.scatter_add(x, 1, i, s), Input(3, 5),
             Input(2, 3, **FIVE), Input(2, 3)),
        case("select", lambda x: x[1] * x[-1], Input(3, 4)),
        case("einsum_matmul", lambda a, b: torch.einsum("ij,jk->ik", a, b), Input(3, 4),
             Input(4, 5)),
        case("einsum_attention", lambda a, b: torch.einsum("bhqd,bkhd->bhqk", a, b),
             Input(2, 3, 4, 5), Input(2, 6, 3, 5)),
        case("einsum_outer", lambda a, b: torch.einsum("i,j->ji", a, b), Input(3), Input(4)),
        case("einsum_dot", lambda a, b: torch.einsum("ij,ij->", a, b), Input(3, 4), Input(3, 4)),
        case("einsum_implicit", lambda a, b: torch.einsum("ba, c b", a, b), Input(3, 4),
             Input(5, 3)),
        case("einsum_ellipsis", lambda a, b: torch.einsum("...ij,j...->...i", a, b),
             Input(2, 1, 3, 4), Input(4, 2, 5)),
        case("einsum_sums", lambda a, b: torch.einsum("ijk,jl->kl", a, b), Input(2, 3, 4),
             Input(1, 5)),
        case("einsum_one", lambda a: torch.einsum("ijk->kj", a), Input(2, 3, 4)),
        case("einsum_trace", lambda a: torch.einsum("ii", a), Input(4, 4)),
        case("einsum_diagonal", lambda a: torch.einsum("iji->ji", a), Input(3, 2, 3)),
        case("einsum_diagonals", lambda a, b: torch.einsum("...ii,jij->...j", a, b),
             Input(2, 3, 3), Input(4, 3, 4)),
        case("einsum_three", lambda a, b, c: torch.einsum("bn,anm,bm->ba", a, b, c), Input(2, 3),
             Input(5, 3, 4), Input(2, 4)),
    ]


def packed(layer, x, given, lengths):
    """The layer's results of sequences that end early, padded again."""
    rnn = torch.nn.utils.rnn
    first = layer.batch_first
    steps = x.shape[1 if first else 0]
    short = rnn.pack_padded_sequence(x, torch.tensor(lengths), first, enforce_sorted=False)
    y, last = layer(short, given)
    return rnn.pad_packed_sequence(y, first, total_length=steps)[0], last


def recurrent_case(name, layer, x_shape, states, lengths=None):
    """Output, last states and gradients of a layer whose parameters, input and states are hashed."""
    layer = layer.double()
    with torch.no_grad():
        for seed, p in enumerate(layer.parameters()):
            p.copy_(hashed(tuple(p.shape), seed) * 0.7)
    x = hashed(x_shape, 50).requires_grad_()
    given = [hashed(shape, 51 + i).requires_grad_() for i, shape in enumerate(states)]
    has_cell = isinstance(layer, (torch.nn.LSTM, torch.nn.LSTMCell))
    state = None if not given else tuple(given) if has_cell else given[0]
    last = packed(layer, x, state, lengths) if lengths else layer(x, state)
    if isinstance(layer, torch.nn.LSTMCell):
        results = [last[0], *last]
    elif isinstance(layer, torch.nn.RNNCellBase):
        results = [last, last]
    else:
        results = [last[0], *last[1]] if has_cell else list(last)
    sum((r * hashed(tuple(r.shape), 90 + i)).sum() for i, r in enumerate(results)).backward()
    return {"name": name, "x": x_shape, "states": states, "lengths": lengths or [],
            "results": [numbers(r) for r in results], "dx": numbers(x.grad),
            "dstates": [numbers(s.grad) for s in given],
            "grads": {n: numbers(p.grad) for n, p in layer.named_parameters()}}


def recurrent():
    n = torch.nn
    two = dict(num_layers=2, bidirectional=True)
    first = dict(batch_first=True, bias=False)
    state = [(4, 2, 4), (4, 2, 4)]
    cases = [recurrent_case("lstm_cell", n.LSTMCell(3, 4), (2, 3), [(2, 4), (2, 4)]),
             recurrent_case("lstm_cell_one", n.LSTMCell(3, 4, bias=False), (3,), []),
             recurrent_case("gru_cell", n.GRUCell(3, 4), (2, 3), [(2, 4)]),
             recurrent_case("gru_cell_one", n.GRUCell(3, 4, bias=False), (3,), []),
             recurrent_case("rnn_cell", n.RNNCell(3, 4), (2, 3), [(2, 4)]),
             recurrent_case("rnn_cell_relu", n.RNNCell(3, 4, nonlinearity="relu"), (2, 3), []),
             recurrent_case("rnn_relu", n.RNN(3, 4, nonlinearity="relu"), (5, 2, 3), [(1, 2, 4)]),
             recurrent_case("lstm_projected", n.LSTM(3, 4, proj_size=2), (5, 2, 3),
                            [(1, 2, 2), (1, 2, 4)]),
             recurrent_case("lstm_projected_two_ways", n.LSTM(3, 4, proj_size=2, **two),
                            (5, 2, 3), [])]
    for kind, layer in [("lstm", n.LSTM), ("gru", n.GRU), ("rnn", n.RNN)]:
        given = state if kind == "lstm" else state[:1]
        one = [(1, *shape[1:]) for shape in given]
        cases += [recurrent_case(kind, layer(3, 4), (5, 2, 3), []),
                  recurrent_case(kind + "_two_ways", layer(3, 4, **two), (5, 2, 3), given),
                  recurrent_case(kind + "_batch_first", layer(3, 4, **first), (2, 5, 3), one),
                  recurrent_case(kind + "_one", layer(3, 4), (5, 3), [(1, 4) for _ in given]),
                  recurrent_case(kind + "_two_ways_packed", layer(3, 4, **two), (5, 3, 3),
                                 [(4, 3, 4) for _ in given], [2, 5, 3]),
                  recurrent_case(kind + "_batch_first_packed", layer(3, 4, **first), (2, 5, 3), [],
                                 [3, 1])]
    return cases


def fill(model):
    """Parameters from the hash, small enough that activations stay near 1."""
    with torch.no_grad():
        for seed, (name, p) in enumerate(model.named_parameters()):
            scale = 0.05 if p.dim() < 2 or "token" in name or "embed" in name else \
                1.5 / math.sqrt(p[0].numel())
            p.copy_(hashed(tuple(p.shape), seed) * scale + (1 if "norm" in name and "weight" in name
                                                            or ("bn" in name and "weight" in name) else 0))


def summary(x):
    flat = x.detach().double().flatten()
    return {"norm": float(flat.norm()), "first": numbers(flat[:8])}


def run(model, image, target, autocast=None):
    model.zero_grad()
    with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
        y = model(image)
        loss = F.cross_entropy(y, target)
    loss.backward()
    return y, loss


def of_model(name, model, image_shape, classes):
    model = model.double()
    fill(model)
    image = hashed(image_shape, 1000)
    target = torch.arange(image_shape[0]) * 3 % classes
    y, loss = run(model, image, target)
    result = {"name": name, "image": list(image_shape), "logits": numbers(y), "loss": float(loss),
              "grads": {n: summary(p.grad) for n, p in model.named_parameters()}}
    exact = {n: p.grad.clone() for n, p in model.named_parameters()}
    model = model.float()
    fill(model)
    y_low, loss_low = run(model, image.float(), target, torch.bfloat16)
    result["bf16"] = {
        "logits": numbers(y_low), "loss": float(loss_low), "logits_dtype": str(y_low.dtype),
        # error of the gradients relative to exact ones: the cost of 16 bits
        "grad_error": {n: float((p.grad.double() - exact[n]).norm() / exact[n].norm())
                       for n, p in model.named_parameters() if exact[n].norm() > 0}}
    return result


class ResidualBlock(torch.nn.Module):
    def __init__(self, n_in, n_out, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(n_out)
        self.conv2 = torch.nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(n_out)
        self.stride, self.added = stride, n_out - n_in

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        kept = x[:, :, ::self.stride, ::self.stride]
        return F.relu(y + F.pad(kept, (0, 0, 0, 0, 0, self.added)))


class ResNet20(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        stage = lambda i, o, s: torch.nn.Sequential(
            ResidualBlock(i, o, s), ResidualBlock(o, o, 1), ResidualBlock(o, o, 1))
        self.layer1, self.layer2, self.layer3 = stage(16, 16, 1), stage(16, 32, 2), stage(32, 64, 2)
        self.fc = torch.nn.Linear(64, classes)

    def forward(self, x):
        y = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.fc(F.adaptive_avg_pool2d(y, 1).flatten(1))


def models():
    small = timm.models.VisionTransformer(img_size=32, patch_size=8, embed_dim=48, depth=2,
                                          num_heads=3, num_classes=10)
    tiny = timm.create_model("vit_tiny_patch16_224", num_classes=101)
    return [of_model("vit_small_test", small, (3, 3, 32, 32), 10),
            of_model("vit_tiny_patch16_224", tiny, (1, 3, 224, 224), 101),
            of_model("resnet20", ResNet20(10), (4, 3, 32, 32), 10)]


def write(name, value):
    lines = ",\n".join(json.dumps(entry) for entry in value)
    (OUT / name).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    torch.manual_seed(0)
    write("functions.json", functions())
    write("recurrent.json", recurrent())
    write("models.json", models())
