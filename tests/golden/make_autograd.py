"""Golden numbers of tests/autograd from PyTorch. Writes tests/golden/autograd/*.json.

    python tests/golden/make_autograd.py

PyTorch 2.15.0 (CPU) made the committed files.
"""
import itertools
import json
import pathlib

import torch

OUT = pathlib.Path(__file__).parent / "autograd"
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16,
          "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8,
          "bool": torch.bool}
COMPARISONS = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]
# Fractions that no dtype holds, and whole numbers that some do not.
VALUES = [0.7, 0.1, 1.0, 3.0, 255.0, 257.0, 2049.0, 16777217.0, 0.0]


def held(values, dtype):
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def as_number(value, dtype):
    """What the same C++ number is in Python: with whole numbers whole, if the dtype holds it."""
    if dtype.is_floating_point or value != int(value):
        return value
    if dtype == torch.bool:
        return int(value)
    return int(value) if torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max else value


def truths(a, b):
    """The six comparisons as one number of six bits for each element."""
    bits = [compare(a, b).expand(len(VALUES)).tolist() for compare in COMPARISONS]
    return [sum(int(bit) << k for k, bit in enumerate(column)) for column in zip(*bits)]


def comparisons():
    cases = []
    for a, b in itertools.product(DTYPES, DTYPES):
        x, other = held(VALUES, DTYPES[a]), held(VALUES[::-1], DTYPES[b])
        cases.append({"a": a, "b": b, "kind": "tensors", "truths": [truths(x, other)]})
        zero_dim = [truths(x, y) for y in held(VALUES, DTYPES[b]).unbind()]
        cases.append({"a": a, "b": b, "kind": "zero_dim", "truths": zero_dim})
    for a in DTYPES:
        x = held(VALUES, DTYPES[a])
        numbers = [truths(x, as_number(value, DTYPES[a])) for value in VALUES]
        cases.append({"a": a, "b": "", "kind": "numbers", "truths": numbers})
    return {"values": VALUES, "cases": cases}


def gradient(fn, *values, dtype):
    leaves = [held(v, dtype).requires_grad_() for v in values]
    fn(*leaves).sum().backward()
    return [x.grad.double().tolist() for x in leaves]


def slopes_at_bounds():
    """Gradients where operands are equal once both have one dtype."""
    rows = []
    for name in ("f32", "f64", "f16", "bf16"):
        dtype = DTYPES[name]
        below, above = held([0.7, 0.6, 0.8], dtype), torch.tensor(0.7, dtype=torch.float64)
        x = below.tolist()
        rows.append({"dtype": name, "x": x,
                     "clamp": gradient(lambda t: t.clamp(0.7, 0.8), x, dtype=dtype)[0],
                     "clamp_below": gradient(lambda t: t.clamp(max=0.7), x, dtype=dtype)[0],
                     "maximum": gradient(lambda t: torch.maximum(t, above), x, dtype=dtype)[0],
                     "minimum": gradient(lambda t: torch.minimum(t, above), x, dtype=dtype)[0]})
    return rows


def second(fn, *values):
    """First derivatives at a point, on the tape, and the derivatives of each by each argument."""
    xs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]
    first = torch.autograd.grad(fn(*xs), xs, create_graph=True)
    rows = []
    for g in first:
        if not g.requires_grad:
            rows.append([0.0] * len(xs))
            continue
        row = torch.autograd.grad(g, xs, retain_graph=True, allow_unused=True)
        rows.append([0.0 if h is None else h.item() for h in row])
    return {"first": [str(g.item()) for g in first], "second": [[str(h) for h in r] for r in rows]}


def powers():
    rows = []
    for a, b in itertools.product((0.0, 1.0, -2.0, 2.0), (0.0, 1.0, 2.0, 3.0, 0.5, -1.0)):
        rows.append({"a": a, "b": b, "tensors": second(torch.pow, a, b),
                     "exponent": second(lambda x: torch.pow(x, b), a),
                     "base": second(lambda x: torch.pow(a, x), b)})
    return rows


def main():
    OUT.mkdir(exist_ok=True)
    for name, content in (("comparisons", comparisons()), ("slopes_at_bounds", slopes_at_bounds()),
                          ("powers", powers())):
        (OUT / f"{name}.json").write_text(json.dumps(content) + "\n")


main()
