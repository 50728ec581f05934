"""How PaddlePaddle 3.3.1's static graph places the ops of small random programs at level O1.

Writes tests/golden/mixed_precision/paddle_static.txt, a program per line. A word is one op: its
name, its arguments and the dtype that Paddle's rewriting gave its result, as in `add:d0,2:f32`;
d0 and d1 are data, w0 and w1 parameters, a number is the result of that op. Programs are rewritten
only, not run: the CPU build's list of ops without GPU kernels, which holds every op, is emptied.

usage: make_mixed_precision_paddle_static.py [COUNT [SEED]]
"""
import os
import pathlib
import random
import sys

os.environ["FLAGS_enable_pir_api"] = "0"
import paddle
from paddle.base import unique_name
from paddle.static.amp import fp16_lists, fp16_utils

OUT = pathlib.Path(__file__).parent / "mixed_precision" / "paddle_static.txt"
UNARY = {"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "softmax": "softmax",
         "exp": "exp", "sqrt": "sqrt", "gelu": "gelu", "abs": "abs", "square": "square"}
BINARY = {"matmul": "matmul_v2", "add": "elementwise_add", "sub": "elementwise_sub",
          "mul": "elementwise_mul", "maximum": "elementwise_max"}
SHAPE = [4, 4]


def random_program(chance):
    known, ops = ["d0", "d1", "w0", "w1"], []
    for i in range(chance.randint(2, 9)):
        names = UNARY if chance.random() < 0.45 else BINARY
        name = chance.choice(sorted(names))
        pick = [chance.choice(known[-5:] if chance.random() < 0.7 else known)
                for _ in range(1 if names is UNARY else 2)]
        ops.append((name, pick))
        known.append(str(i))
    return ops


def placed(ops):
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()), unique_name.guard():
        block = program.global_block()
        values = {}
        for name in ("d0", "d1"):
            values[name] = block.create_var(name=name, shape=SHAPE, dtype="float32", is_data=True)
        for name in ("w0", "w1"):
            values[name] = block.create_parameter(name=name, shape=SHAPE, dtype="float32")
        for i, (name, arguments) in enumerate(ops):
            out = block.create_var(name=f"o{i}", dtype="float32")
            inputs = {key: [values[a]] for key, a in zip("XY", arguments)}
            block.append_op(type=UNARY.get(name) or BINARY[name], inputs=inputs,
                            outputs={"Out": [out]})
            values[str(i)] = out
        lists = fp16_lists.AutoMixedPrecisionLists()
        lists.unsupported_list = set()
        fp16_utils.cast_model_to_fp16(program, lists, use_fp16_guard=False, level="O1")
        return [str(values[str(i)].dtype) for i in range(len(ops))]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    chance = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 11)
    paddle.enable_static()
    lines = []
    for _ in range(count):
        ops = random_program(chance)
        words = []
        for (name, arguments), dtype in zip(ops, placed(ops)):
            short = "f16" if "16" in dtype else "f32"
            words.append(f"{name}:{','.join(arguments)}:{short}")
        lines.append(" ".join(words))
    OUT.write_text("\n".join(lines) + "\n")


main()
