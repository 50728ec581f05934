"""What PyTorch makes of a number that a tensor's dtype may not hold: a result or an error. Writes
tests/golden/autograd/scalars.json.

    python tests/golden/make_scalars.py

PyTorch 2.15.0 (CPU) made the committed file.
"""
import json
import math
import pathlib

import torch
import torch.nn.functional as F

OUT = pathlib.Path(__file__).parent / "autograd" / "scalars.json"
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16,
          "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8,
          "bool": torch.bool}
NUMBERS = [0.5, -0.5, 1, -1, 2.5, -2.5, 255, 255.5, 256, 300, -255, 65504, 65510, 65520, 1e9, 3e9,
           2147483647, 2147483648, -2147483648, -2147483649, 3.4028234663852886e38, 3.5e38,
           -3.5e38, 9.2e18, 9.3e18, -9.3e18, math.inf, -math.inf, math.nan]
# Each gives one number, from a tensor of one element.
CALLS = {
    "full": lambda x, n: torch.full_like(x, n),
    "fill_": lambda x, n: x.clone().fill_(n),
    "masked_fill": lambda x, n: x.masked_fill(torch.tensor([True]), n),
    "scatter": lambda x, n: x.scatter(0, torch.tensor([0]), n),
    "pad": lambda x, n: F.pad(x, (0, 1), value=n)[1],
    "clamp_low": lambda x, n: x.clamp(min=n),
    "clamp_high": lambda x, n: x.clamp(max=n),
    "add_": lambda x, n: x.clone().add_(x, alpha=n),
    "mul_": lambda x, n: x.clone().mul_(n),
    "add": lambda x, n: x + n,
    "sub": lambda x, n: x - n,
    "sub_from": lambda x, n: n - x,
    "mul": lambda x, n: x * n,
    "pow": lambda x, n: x ** n,
    "linspace": lambda x, n: torch.linspace(0, n, 2, dtype=x.dtype)[1],
}


# What these are given is converted to the tensor's dtype; others compute with it.
CONVERTED = ["full", "fill_", "masked_fill", "scatter", "pad", "linspace"]


def as_number(name, number, dtype):
    """What the same C++ number is in arithmetic in Python: with whole numbers whole, if 64 bits
    hold it."""
    is_whole = math.isfinite(number) and number == int(number) and abs(number) < 2 ** 63
    is_int = is_whole and not dtype.is_floating_point and name not in CONVERTED
    return int(number) if is_int else float(number)


def verdict(name, dtype, number):
    try:
        x = torch.tensor([2]).to(dtype)
        return float(CALLS[name](x, as_number(name, number, dtype)).item())
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return "error"


def as_text(value):
    return value if value == "error" or math.isfinite(value) else str(value)


rows = {name: {short: [as_text(verdict(name, dtype, number)) for number in NUMBERS]
               for short, dtype in DTYPES.items()}
        for name in CALLS}
text = json.dumps({"numbers": [as_text(float(n)) for n in NUMBERS], "results": rows})
OUT.write_text(text.replace('"results"', '\n"results"').replace("}, ", "},\n") + "\n")
