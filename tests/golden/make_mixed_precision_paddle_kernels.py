"""Which CPU kernels PaddlePaddle 3.3.1 has for 16-bit floats, from its own registry.

Writes tests/golden/mixed_precision/paddle_kernels.txt: a line per forward op, its name and those of
float16 and bfloat16 that it has a kernel for (oneDNN's, which the dynamic graph does not choose, do
not count).

usage: make_mixed_precision_paddle_kernels.py
"""
import pathlib

from paddle.base import core

OUT = pathlib.Path(__file__).parent / "mixed_precision" / "paddle_kernels.txt"


def main():
    lines = []
    for op, kernels in core._get_all_register_op_kernels("all").items():
        if "grad" in op:
            continue
        plain = [kernel for kernel in kernels if "ONEDNN" not in kernel]
        has = [t for t in ("float16", "bfloat16") if any("::" + t + "]" in k for k in plain)]
        lines.append(" ".join([op] + has))
    OUT.write_text("\n".join(sorted(lines)) + "\n")


main()
