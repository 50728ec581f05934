"""The rows of build/benchmarks/op_sweep in PyTorch: `op_sweep.py [--threads N] [--only TEXT] [--quick]`.

A JSON line for each row, with the same names, orders and shapes. Needs torch.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64}

# name, shape in memory, view, dim: as `memory_orders` in op_sweep.cpp
ORDERS = [
    ("contiguous", (512, 1024), lambda x: x, 1),
    ("transposed", (1024, 512), lambda x: x.t(), 1),
    ("middle", (8, 64, 16, 64), lambda x: x.permute(0, 2, 1, 3), 2),
    ("row", (1, 1024), lambda x: x, 1),
    ("slice", (512, 2048), lambda x: x[:, 512:1536], 1),
    ("broadcast", (1, 1024), lambda x: x.expand(512, 1024), 1),
    ("first", (512, 1024), lambda x: x, 0),
    ("short", (8192, 64), lambda x: x, 1),
]

UNARY = {
    "neg": torch.neg, "abs": torch.abs, "square": torch.square, "exp": torch.exp, "expm1": torch.expm1,
    "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal,
    "sin": torch.sin, "cos": torch.cos, "erf": torch.erf, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "softplus": F.softplus, "relu": torch.relu, "silu": F.silu, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "sign": torch.sign, "floor": torch.floor,
    "round": torch.round,
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "maximum": torch.maximum, "minimum": torch.minimum, "swiglu": lambda a, b: F.silu(a) * b,
}
COMPARE = {"equal": torch.eq, "not_equal": torch.ne, "less": torch.lt, "less_equal": torch.le,
           "greater": torch.gt, "greater_equal": torch.ge}
NUMBER = {"maximum": lambda x, v: torch.clamp(x, min=v), "minimum": lambda x, v: torch.clamp(x, max=v)}


class Input:
    pass


def rows(i):
    return i.x.reshape(-1, i.x.size(-1))


def targets(i):
    return i.index.select(-1, 0).flatten()


def residual_layer_norm(i):
    total = i.x + i.y
    return F.layer_norm(total, total.shape[-1:], i.weight, i.weight)


def backward(f):
    def run(i):
        with torch.enable_grad():
            x = i.x.detach()
            x.requires_grad_()
            f(x, i).backward()
    return run


def functions():
    """name: (kind, takes integers, function)"""
    f = {}

    def add(kind, name, run, integers=False):
        f[name] = (kind, integers, run)

    for name, op in UNARY.items():
        positive = name in ("log", "sqrt", "rsqrt")
        add("elementwise", name, (lambda op: lambda i: op(i.positive))(op) if positive else
            (lambda op: lambda i: op(i.x))(op))
    for name, op in BINARY.items():
        add("pair", name, (lambda op: lambda i: op(i.positive, i.y))(op), True)
        number = NUMBER.get(name, op)
        if name == "swiglu":
            add("elementwise", name + "_number", lambda i: F.silu(i.x) * 3.0, True)
        else:
            add("elementwise", name + "_number", (lambda op: lambda i: op(i.x, 3))(number), True)
    for name, op in COMPARE.items():
        add("pair", name, (lambda op: lambda i: op(i.x, i.y))(op), True)
        add("elementwise", name + "_number", (lambda op: lambda i: op(i.x, 1))(op), True)

    def unary(name, run, integers=False):
        add("elementwise", name, run, integers)

    unary("pow_2", lambda i: torch.pow(i.x, 2.0))
    unary("pow_half", lambda i: torch.pow(i.positive, 0.5))
    unary("pow_2.5", lambda i: torch.pow(i.positive, 2.5))
    unary("pow_minus_1", lambda i: torch.pow(i.positive, -1.0))
    unary("number_sub", lambda i: 1 - i.x, True)
    unary("number_div", lambda i: 1.0 / i.positive)
    unary("clamp", lambda i: torch.clamp(i.x, -1, 1), True)
    unary("isfinite", lambda i: torch.isfinite(i.x))
    unary("isnan", lambda i: torch.isnan(i.x))
    unary("gelu_erf", lambda i: F.gelu(i.x))
    unary("leaky_relu", lambda i: F.leaky_relu(i.x, 0.01))
    unary("elu", lambda i: F.elu(i.x, 1))
    unary("masked_fill", lambda i: i.x.masked_fill(i.mask, 0), True)
    unary("clone", lambda i: i.x.clone(memory_format=torch.contiguous_format), True)
    unary("contiguous", lambda i: i.x.contiguous(), True)
    unary("zeros_like", lambda i: torch.zeros_like(i.x), True)
    add("other", "fill_", lambda i: i.y.fill_(3), True)
    add("other", "mul_", lambda i: i.y.mul_(1), True)
    add("other", "to_f32", lambda i: i.x.to(torch.float32).mul_(1))
    for name in ("bf16", "i64"):
        unary("to_" + name, (lambda d: lambda i: i.x.to(d))(DTYPES[name]), name != "i64")
    unary("to_f16", lambda i: i.x.to(torch.float16), True)
    unary("to_f64", lambda i: i.x.to(torch.float64), True)
    unary("to_i32", lambda i: i.x.to(torch.int32), True)
    unary("to_bool", lambda i: i.x.to(torch.bool), True)
    unary("to_u8", lambda i: i.mask.to(torch.uint8))
    unary("mask_to_f32", lambda i: i.mask.to(torch.float32))
    unary("index_to_f32", lambda i: i.index.to(torch.float32))
    unary("dropout", lambda i: F.dropout(i.x, 0.1))
    unary("flatten", lambda i: i.x.flatten(), True)
    unary("pad", lambda i: F.pad(i.x, (1, 1)), True)
    unary("tril", lambda i: torch.tril(i.x), True)
    unary("triu", lambda i: torch.triu(i.x), True)
    unary("uniform", lambda i: torch.rand(i.x.shape))
    unary("normal", lambda i: torch.randn(i.x.shape))
    unary("bernoulli", lambda i: torch.bernoulli(torch.clamp(i.positive, 0, 1)))
    unary("randint", lambda i: torch.randint(0, 1000, i.x.shape))
    unary("full", lambda i: torch.full(i.x.shape, 2.0))
    unary("arange", lambda i: torch.arange(i.x.numel()))
    unary("linspace", lambda i: torch.linspace(0, 1, i.x.numel()))
    unary("random_permutation", lambda i: torch.randperm(i.x.size(-1)))

    add("pair", "where", lambda i: torch.where(i.mask, i.x, i.y), True)
    add("pair", "copy_", lambda i: i.positive.copy_(i.y), True)
    add("pair", "add_", lambda i: i.x.add_(i.y), True)
    add("pair", "add_3", lambda i: i.x.add_(i.y, alpha=3))
    add("pair", "mul_add", lambda i: i.x * i.y + i.x, True)
    add("pair", "mixed_add", lambda i: i.x + i.index)
    add("pair", "equal_mask", lambda i: i.mask == 0)

    def other(name, run):
        add("other", name, run)

    other("mse_loss", lambda i: F.mse_loss(i.x, i.y))
    other("l1_loss", lambda i: F.l1_loss(i.x, i.y))
    other("smooth_l1_loss", lambda i: F.smooth_l1_loss(i.x, i.y))
    other("huber_loss", lambda i: F.huber_loss(i.x, i.y))
    other("kl_div", lambda i: F.kl_div(i.y, i.positive, reduction="mean"))
    other("bce_logits", lambda i: F.binary_cross_entropy_with_logits(i.x, i.positive))
    other("bce", lambda i: F.binary_cross_entropy(i.positive * 0.5, i.positive * 0.5))
    other("cross_entropy", lambda i: F.cross_entropy(rows(i), targets(i)))
    other("nll_loss", lambda i: F.nll_loss(rows(i), targets(i)))
    other("linear", lambda i: F.linear(i.x, i.matrix.t()))
    other("linear_bias", lambda i: F.linear(i.x, i.matrix.t(), i.matrix[0]))
    other("linear_gelu", lambda i: F.gelu(F.linear(i.x, i.matrix.t(), i.matrix[0])))
    other("matmul", lambda i: i.x @ i.matrix)
    other("matmul_vector", lambda i: i.x @ i.vector)
    other("vector_matmul", lambda i: (lambda m: m.select(-1, 0) @ m)(i.x if i.x.ndim < 3 else i.x[0][0]))
    other("matmul_self", lambda i: i.x @ i.y.transpose(-1, -2))
    other("einsum", lambda i: torch.einsum("...i,ij->...j", i.x, i.matrix))
    other("dot", lambda i: i.x.flatten() @ i.x.flatten())
    other("layer_norm", lambda i: F.layer_norm(i.x, i.x.shape[-1:], i.weight, i.weight))
    other("rms_norm", lambda i: F.rms_norm(i.x, i.x.shape[-1:], i.weight))
    other("residual_layer_norm", residual_layer_norm)
    other("embedding", lambda i: F.embedding(i.index[0], i.matrix))

    def along(name, run, integers=False):
        add("along", name, run, integers)

    along("sum", lambda i: i.x.sum(i.dim), True)
    along("mean", lambda i: i.x.mean(i.dim))
    along("amax", lambda i: i.x.amax(i.dim), True)
    along("amin", lambda i: i.x.amin(i.dim), True)
    along("argmax", lambda i: i.x.argmax(i.dim), True)
    along("argmin", lambda i: i.x.argmin(i.dim), True)
    along("max", lambda i: i.x.max(i.dim), True)
    along("min", lambda i: i.x.min(i.dim), True)
    along("var", lambda i: i.x.var(i.dim))
    along("stddev", lambda i: i.x.std(i.dim))
    along("norm", lambda i: torch.linalg.vector_norm(i.x, 2, i.dim))
    along("norm_1", lambda i: torch.linalg.vector_norm(i.x, 1, i.dim))
    along("norm_3", lambda i: torch.linalg.vector_norm(i.x, 3, i.dim))
    along("logsumexp", lambda i: i.x.logsumexp(i.dim))
    along("softmax", lambda i: i.x.softmax(i.dim))
    along("log_softmax", lambda i: i.x.log_softmax(i.dim))
    along("cumsum", lambda i: i.x.cumsum(i.dim), True)
    along("sort", lambda i: i.x.sort(dim=i.dim, stable=True), True)
    along("sort_descending", lambda i: i.x.sort(dim=i.dim, descending=True, stable=True))
    along("argsort", lambda i: i.x.argsort(dim=i.dim, stable=True))
    along("topk", lambda i: i.x.topk(5, i.dim), True)
    along("topk_smallest", lambda i: i.x.topk(5, i.dim, largest=False))
    along("flip", lambda i: i.x.flip(i.dim), True)
    along("cat", lambda i: torch.cat([i.x, i.x], i.dim), True)
    along("stack", lambda i: torch.stack([i.x, i.x], i.dim), True)
    along("split", lambda i: i.x.split(16, i.dim))
    along("slice_clone", lambda i: i.x[(slice(None),) * i.dim + (slice(0, None, 2),)].clone(
        memory_format=torch.contiguous_format), True)
    along("index_select", lambda i: i.x.index_select(
        i.dim, (i.index[0][0] if i.index.ndim > 2 else i.index).narrow(0, 0, 1).flatten()), True)
    along("gather", lambda i: i.x.gather(i.dim, i.index), True)
    along("scatter", lambda i: i.x.scatter(i.dim, i.index, i.x))
    along("scatter_number", lambda i: i.x.scatter(i.dim, i.index, 3.0))
    along("scatter_add", lambda i: i.x.scatter_add(i.dim, i.index, i.x))
    unary("sum_all", lambda i: i.x.sum(), True)
    unary("mean_all", lambda i: i.x.mean())
    unary("max_all", lambda i: i.x.max(), True)
    unary("min_all", lambda i: i.x.min())
    unary("argmax_all", lambda i: i.x.argmax())
    unary("argmin_all", lambda i: i.x.argmin())
    unary("norm_all", lambda i: torch.linalg.vector_norm(i.x))
    unary("sum_first_last", lambda i: i.x.sum((0, -1)))
    unary("masked_select", lambda i: i.x[i.mask])

    along("sum_backward", backward(lambda x, i: x.sum(i.dim).sum()))
    unary("mul_backward", backward(lambda x, i: (x * i.y).sum()))
    unary("gelu_backward", backward(lambda x, i: F.gelu(x).sum()))
    unary("tanh_backward", backward(lambda x, i: x.tanh().sum()))
    unary("pow_backward", backward(lambda x, i: (x ** 3).sum()))
    unary("sin_backward", backward(lambda x, i: x.sin().sum()))
    along("softmax_backward", backward(lambda x, i: (x.softmax(i.dim) * i.positive).sum()))
    along("amax_backward", backward(lambda x, i: x.amax(i.dim).sum()))
    along("cumsum_backward", backward(lambda x, i: x.cumsum(i.dim).sum()))
    unary("transpose_backward", backward(
        lambda x, i: (x.transpose(-1, -2) * i.y.transpose(-1, -2)).sum()))
    return f


def image_functions():
    return {
        "conv2d": lambda i: F.conv2d(i.x, i.matrix, i.vector, padding=1),
        "conv2d_stride": lambda i: F.conv2d(i.x, i.matrix, stride=2),
        "conv_transpose2d": lambda i: F.conv_transpose2d(i.x, i.matrix, stride=2),
        "batch_norm": lambda i: F.batch_norm(i.x, None, None, i.vector, i.vector, training=True),
        "group_norm": lambda i: F.group_norm(i.x, 4, i.vector, i.vector),
        "max_pool2d": lambda i: F.max_pool2d(i.x, 2),
        "avg_pool2d": lambda i: F.avg_pool2d(i.x, 3, 2, 1),
        "adaptive_avg_pool2d": lambda i: F.adaptive_avg_pool2d(i.x, 1),
        "pixel_shuffle": lambda i: F.pixel_shuffle(i.x, 2),
        "interpolate_nearest": lambda i: F.interpolate(i.x, 56, mode="nearest"),
        "interpolate_bilinear": lambda i: F.interpolate(i.x, 56, mode="bilinear"),
        "pad_reflect": lambda i: F.pad(i.x, (2, 2, 2, 2), mode="reflect"),
        "pad_replicate": lambda i: F.pad(i.x, (2, 2, 2, 2), mode="replicate"),
        "dropout2d": lambda i: F.dropout2d(i.x, 0.1),
        "image_mean": lambda i: i.x.mean((2, 3)),
        "image_sum_channels": lambda i: i.x.sum((0, 2, 3)),
        "image_relu": lambda i: i.x.relu(),
        "image_add": lambda i: i.x + i.x,
        "image_bias": lambda i: i.x + i.vector.reshape(-1, 1, 1),
        "image_channels_last": lambda i: i.x.contiguous(memory_format=torch.channels_last),
        "image_contiguous": lambda i: i.x.contiguous(),
        "attention": lambda i: F.scaled_dot_product_attention(i.x, i.x, i.x),
        "attention_causal": lambda i: F.scaled_dot_product_attention(i.x, i.x, i.x, is_causal=True),
    }


def input_of(order, kind, dtype):
    name, memory, view, dim = order
    pair = kind == "pair" and name == "broadcast"
    if pair:
        memory, view = (512, 1024), lambda x: x
    floating = dtype.is_floating_point
    torch.manual_seed(1)
    i = Input()
    i.x = view((torch.randn(memory) * (1 if floating else 100)).to(dtype))
    i.positive = view((torch.rand(memory) * 1.9 + 0.1 if floating else torch.rand(memory) * 99 + 1).to(dtype))
    i.y = (torch.rand(1024) + 1).to(dtype) if pair else view((torch.rand(memory) + 1).to(dtype))
    i.mask = view(torch.randn(memory) > 0)
    i.index = view(torch.randint(0, i.x.size(dim), memory))
    last = i.x.size(-1)
    i.matrix = torch.randn(last, 128).to(dtype)
    i.vector = torch.randn(last).to(dtype)
    i.weight = torch.randn(last).to(torch.bfloat16 if dtype == torch.bfloat16 else torch.float32)
    i.dim = dim
    return i


def images(channels_last):
    torch.manual_seed(1)
    i = Input()
    i.x = torch.randn(8, 32, 28, 28)
    if channels_last:
        i.x = i.x.contiguous(memory_format=torch.channels_last)
    i.matrix, i.vector = torch.randn(32, 32, 3, 3), torch.randn(32)
    return i


class Sweep:
    def __init__(self, options):
        self.options = options
        self.samples = 3 if options.quick else options.steps
        self.sample_seconds = 1e-6 * (300 if options.quick else options.microseconds)
        self.clock = time.process_time if options.threads == 1 else time.perf_counter

    def timed(self, run, i, calls):
        start = self.clock()
        for _ in range(calls):
            run(i)
        return (self.clock() - start) / calls

    def row(self, name, order, dtype, make_input, run):
        if self.options.only not in f" {name} {order} {dtype} ":
            return
        i = make_input()
        try:
            run(i)
        except (RuntimeError, NotImplementedError):
            return
        once = self.timed(run, i, 1)
        calls = max(1, int(self.sample_seconds / max(once, 1e-7)))
        seconds = min([once] + [self.timed(run, i, calls) for _ in range(self.samples)])
        print(json.dumps({"benchmark": "op_sweep", "name": name, "order": order, "dtype": dtype,
                          "shape": list(i.x.shape), "threads": self.options.threads, "seconds": seconds,
                          "versions": {"torch": torch.__version__}}), flush=True)

    def run(self):
        for order in ORDERS:
            for dtype in DTYPES:
                if dtype != "f32" and order[0] not in ("contiguous", "transposed"):
                    continue
                for name, (kind, integers, run) in functions().items():
                    if order[0] == "broadcast" and kind not in ("elementwise", "pair"):
                        continue
                    if order[0] in ("first", "short") and kind != "along":
                        continue
                    if dtype == "i64" and not integers:
                        continue
                    self.row(name, order[0], dtype, lambda: input_of(order, kind, DTYPES[dtype]), run)
        for channels_last in (False, True):
            order = "channels_last" if channels_last else "contiguous"
            for name, run in image_functions().items():
                self.row(name, order, "f32", lambda: images(channels_last), run)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--microseconds", type=int, default=1000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with torch.no_grad():
        Sweep(options).run()


if __name__ == "__main__":
    main()
