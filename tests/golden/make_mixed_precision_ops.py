"""Golden op lists and result dtypes of autocast, from PyTorch 2.15 on a machine without a GPU.

Writes to tests/golden/mixed_precision/
  autocast_cpu.txt, autocast_cuda.txt   every op registered for the dispatch key, one per line
  result_dtypes.txt                     what ops return, alone and in regions of bf16 and of f16

CPU results come from running the ops; CUDA results from fake tensors, which carry dtypes through the
autocast wrappers and the ops' shape functions without kernels. Needs the package expecttest (for
PyTorch's table of sample inputs).

usage: make_mixed_precision_ops.py
"""
import contextlib
import ctypes
import itertools
import os
import pathlib
import sys
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

OUT = pathlib.Path(__file__).parent / "mixed_precision"
NAMES = {
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint8: "u8", torch.bool: "bool", torch.complex32: "c32", torch.complex64: "c64",
    torch.complex128: "c128",
}
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
# Dtypes of the floating arguments: as many as an op has, with the last repeated.
MIXES = [(F16,), (BF16,), (F32,), (F64,), (F16, F32), (F32, F16), (BF16, F32), (F16, BF16),
         (F64, F32)]
FEW_MIXES = [(F16,), (F32,), (F64,), (F16, F32)]
# Left out: the dtype depends on more than dtypes (a mode, an order, one argument or two), results
# that are random or of a dtype that we lack, and samples whose tensors have other roles.
LEFT_OUT = {
    "nn.functional.pad", "norm", "linalg.norm", "nn.functional.instance_norm", "linalg.pinv",
    "hash_tensor",
    "nn.functional.linear_cross_entropy", "linalg.polar", "nn.functional.max_pool3d", "gradient",
    "cfloat", "cdouble", "chalf", "tensor_split", "histogram", "histogramdd", "geometric",
    "complex",
    "nn.functional.gaussian_nll_loss", "nn.functional.multi_head_attention_forward", "to",
    "einsum", "svd_lowrank", "pca_lowrank", "cartesian_prod", "pdist",
}
FAKE = FakeTensorMode()


def registered(key):
    """The names that PyTorch's dispatcher prints for a key (it prints from C++)."""
    read, write = os.pipe()
    saved = os.dup(1)
    sys.stdout.flush()
    os.dup2(write, 1)
    torch._C._dispatch_print_registrations_for_dispatch_key(key)
    ctypes.CDLL(None).fflush(None)
    os.dup2(saved, 1)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        text = stream.read().decode()
    return sorted(word.removeprefix("aten::") for word in text.split() if "::" in word)


def short_name(name):
    name = name.removeprefix("nn.functional.")
    return name.replace("linalg.", "linalg_").replace("fft.", "fft_").replace("special.", "special_")


def listed_names(device):
    return {name.split(".")[0] for name in registered("Autocast" + device)}


def forms(op):
    """One sample for each number of tensors that the op takes, at most two of them."""
    found = {}
    for sample in itertools.islice(op.sample_inputs("cpu", F32), 40):
        flat, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [i for i, x in enumerate(flat) if isinstance(x, torch.Tensor)]
        whole = places and all(flat[i].numel() for i in places)
        if whole and not any(isinstance(x, torch.dtype) for x in flat):
            floats = sum(flat[i].dtype == F32 for i in places)
            if 0 < floats <= 3:
                found.setdefault(len(places), (flat, spec, places))
    return [found[n] for n in sorted(found)[:2]]


def with_dtypes(form, mix):
    flat, spec, places = list(form[0]), form[1], form[2]
    count, dtypes = 0, []
    for i in places:
        if flat[i].dtype == F32:
            flat[i] = flat[i].detach().to(mix[min(count, len(mix) - 1)])
            count += 1
        dtypes.append(NAMES[flat[i].dtype])
    return tree_unflatten(flat, spec), dtypes, count


def to_fake(x):
    if isinstance(x, torch.Tensor):
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda")
    return torch.device("cuda") if isinstance(x, torch.device) else x


def in_region(device, region, call):
    """torch.autocast("cuda") disables itself without a GPU, so the switches are set here."""
    if not region:
        return call()
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_dtype(device, region)
    try:
        return call()
    finally:
        torch.set_autocast_enabled(device, False)
        torch.clear_autocast_cache()


def result(op, arguments, device, region):
    """The dtype of the first tensor returned; "none" if there is none, "error" if it raises."""
    try:
        first, args, kwargs = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x,
                                       arguments)
        with FAKE if device == "cuda" else contextlib.nullcontext():
            if device == "cuda":
                first, args, kwargs = tree_map(to_fake, (first, args, kwargs))
            out = in_region(device, region, lambda: op(first, *args, **kwargs))
    except Exception:
        return "error"
    tensors = [x for x in tree_flatten(out)[0] if isinstance(x, torch.Tensor)]
    return NAMES.get(tensors[0].dtype, "other") if tensors else "none"


def lines_of(op, device, mixes):
    seen = set()
    for form in forms(op):
        for mix in mixes:
            arguments, dtypes, count = with_dtypes(form, mix)
            if len(mix) > max(count, 1) or tuple(dtypes) in seen:
                continue
            seen.add(tuple(dtypes))
            results = [result(op, arguments, device, region) for region in (BF16, F16)]
            alone = result(op, arguments, device, None) if device == "cpu" else "-"
            if "other" not in (alone, *results):
                yield " ".join([device, short_name(op.name), ",".join(dtypes), alone, *results])


def result_lines():
    on_cuda, done = listed_names("CUDA"), set()
    listed = on_cuda | listed_names("CPU")
    for op in op_db:
        skipped = op.name in LEFT_OUT or op.name.startswith(("masked.", "sparse.", "torch.",
                                                             "signal.", "jiterator"))
        if skipped or op.name in done or op.is_factory_function:
            continue
        done.add(op.name)
        is_listed = short_name(op.name) in listed
        yield from lines_of(op, "cpu", MIXES if is_listed else FEW_MIXES)
        # Fake tensors know which dtypes autocast requests, but not which have kernels: ops
        # on CUDA's own lists, in regions, without doubles among other dtypes.
        if short_name(op.name) in on_cuda:
            yield from lines_of(op, "cuda", MIXES[:-1])


def made(dtype, *shape):
    return torch.randn(*shape).to(dtype)


def cell(kind, gates):
    """An LSTM's or GRU's cell: the input and the weights of one dtype, the state of another."""
    def run(x, state):
        h = made(state, 2, 4)
        weights = [made(x, gates * 4, 3), made(x, gates * 4, 4), made(x, gates * 4), made(x, gates * 4)]
        return kind(made(x, 2, 3), (h, h) if gates == 4 else h, *weights)
    return run


# Ops that PyTorch's table of samples leaves out, with the dtypes of one or two arguments.
MORE = {
    "lstm_cell": (2, cell(torch.lstm_cell, 4)),
    "gru_cell": (2, cell(torch.gru_cell, 3)),
    "pdist": (1, lambda x: torch.pdist(made(x, 4, 3))),
    "nuclear_norm": (1, lambda x: torch.nuclear_norm(made(x, 4, 3))),
    "_upsample_bicubic2d_aa":
        (1, lambda x: torch._C._nn._upsample_bicubic2d_aa(made(x, 1, 1, 4, 4), (2, 2), False)),
    "_grid_sampler_2d_cpu_fallback": (2, lambda x, grid: torch._grid_sampler_2d_cpu_fallback(
        made(x, 1, 1, 4, 4), made(grid, 1, 2, 2, 2), 0, 0, False)),
    "linalg_pinv": (1, lambda x: torch.linalg.pinv(made(x, 4, 3))),
    "linalg_matrix_exp": (1, lambda x: torch.linalg.matrix_exp(made(x, 3, 3))),
    "_convolution": (2, lambda x, w: torch._convolution(
        made(x, 1, 2, 5, 5), made(w, 2, 2, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
        False, False, False, False)),
    "_convolution.deprecated": (2, lambda x, w: torch._convolution(
        made(x, 1, 2, 5, 5), made(w, 2, 2, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
        False, False, False)),
    "cross_entropy": (2, lambda x, target: torch.nn.functional.cross_entropy(
        made(x, 3, 3), torch.softmax(torch.randn(3, 3), -1).to(target))),
    "linalg_matrix_rank": (2, lambda x, tolerance: torch.linalg.matrix_rank(
        made(x, 3, 3), tol=torch.tensor(0.1).to(tolerance))),
}


def more_lines():
    def returned(run, dtypes, region):
        try:
            with torch.autocast("cpu", dtype=region or BF16, enabled=region is not None):
                y = run(*dtypes)
            return NAMES[(y[0] if isinstance(y, tuple) else y).dtype]
        except (RuntimeError, TypeError):
            return "error"

    for name, (count, run) in MORE.items():
        for dtypes in itertools.product((F16, BF16, F32, F64), repeat=count):
            answers = [returned(run, dtypes, region) for region in (None, BF16, F16)]
            yield " ".join(["cpu", name, ",".join(NAMES[dtype] for dtype in dtypes), *answers])


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    OUT.mkdir(exist_ok=True)
    for device in ("cpu", "cuda"):
        names = registered("Autocast" + device.upper())
        (OUT / f"autocast_{device}.txt").write_text("\n".join(names) + "\n")
    lines = ["# device op arguments: alone, in a bf16 region, in an f16 region; "
             f"PyTorch {torch.__version__.split('+')[0]}", *result_lines(), *more_lines()]
    (OUT / "result_dtypes.txt").write_text("\n".join(lines) + "\n")
    print(len(lines) - 1, "results")


main()
