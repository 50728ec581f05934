"""Golden op lists of PaddlePaddle 3.3.1, from the package itself.

Writes tests/golden/mixed_precision/paddle_lists.txt: a line `dtype level list op` for every op on
dygraph's lists, and `static - gray op` for static programs' gray list.

usage: make_mixed_precision_paddle.py
"""
import pathlib

from paddle.amp import amp_lists
from paddle.static.amp import fp16_lists

OUT = pathlib.Path(__file__).parent / "mixed_precision" / "paddle_lists.txt"


def main():
    lines = []
    for kind, lists in (("white", amp_lists.white_list()), ("black", amp_lists.black_list())):
        for dtype, levels in lists.items():
            for level, ops in levels.items():
                lines += [f"{dtype} {level} {kind} {op}" for op in ops]
    lines += [f"static - gray {op}" for op in fp16_lists.gray_list]
    OUT.write_text("\n".join(sorted(lines)) + "\n")


main()
