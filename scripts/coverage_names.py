"""Lists names of torch without a row in docs/reference/coverage.def; needs torch.

    python scripts/coverage_names.py
"""
import inspect
import pathlib
import re

import torch
import torch.nn.functional as F

DATA = pathlib.Path(__file__).parent.parent / "docs/reference/coverage.def"
# Not functions of users: parts of torch's machinery, in-place twins, variants that others call.
MACHINERY = re.compile(
    r"^(Callable|DType|Optional|ScalingType|SwizzleType|Tensor|Container|RNNBase|RNNCellBase|"
    r"LinearCrossEntropyOptions|LRScheduler|assert_int_or_pair|boolean_dispatch|"
    r".*torch_function.*|.*_with_indices|native_.*|.*_)$")


def rows():
    names, section = {}, ""
    for line in DATA.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:].split(" | ")[0]
        elif line and not line.startswith("#"):
            names.setdefault(section, set()).update(line.split(" | ")[0].split(", "))
    return names


def public(module, classes):
    return {n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n))
            and inspect.isclass(getattr(module, n)) == classes and not MACHINERY.match(n)}


def report(section, wanted, known):
    print(f"{section}: {len(wanted - known)} without a row:", *sorted(wanted - known))
    print(f"{section}: {len(known - wanted)} rows that torch lacks:", *sorted(known - wanted))


if __name__ == "__main__":
    known = rows()
    report("torch.nn.functional", public(F, False), known["torch.nn.functional"])
    report("torch.nn", public(torch.nn, True), known["torch.nn"])
    report("torch.optim", public(torch.optim, True), known["torch.optim"])
    main = {n for n in public(torch, False) if hasattr(torch.Tensor, n)}
    report("torch, also of Tensor", main - known["torch.nn.functional"],
           known["torch and torch.Tensor"])
