#!/usr/bin/env python3
"""Writes tests/golden/fp8/casts.txt: PyTorch's 8-bit floats (float8_e4m3fn, float8_e5m2).

A line "decode CODE E4M3 E5M2" per code holds the f32 bits of its value; a line
"cast BITS E4M3 E5M2" per f32 number holds the codes that `.to` returns. The numbers are all values of
both formats, the ties between neighbours, their f32 neighbours on both sides, and the ends of the
range, with alternating signs. Run with PyTorch 2.15.
"""
import pathlib
import torch

FORMATS = (torch.float8_e4m3fn, torch.float8_e5m2)


def bits(x):
    return x.to(torch.float32).contiguous().view(torch.int32).long() & 0xFFFFFFFF


codes = torch.arange(256, dtype=torch.uint8)
decoded = [codes.view(f).to(torch.float32) for f in FORMATS]
numbers = []
for values in decoded:
    finite = values[values.isfinite() & (values >= 0)].unique().double()
    ties = (finite[1:] + finite[:-1]) / 2
    numbers += [finite, ties]
numbers += [torch.tensor([464.0, 480.0, 512.0, 61440.0, 65504.0, 65536.0, 1e30, 1e-30, 1e-45])]
exact = torch.cat([n.float() for n in numbers]).unique()
near = torch.cat([exact, torch.nextafter(exact, torch.tensor(torch.inf)),
                  torch.nextafter(exact, torch.tensor(-torch.inf)).clamp(min=0)]).unique()
near[1::2] *= -1
sweep = torch.cat([near, torch.tensor([torch.inf, -torch.inf, torch.nan])])

lines = [f"# PyTorch {torch.__version__.split('+')[0]}"]
for code, *values in zip(codes, *(bits(d) for d in decoded)):
    lines.append(f"decode {code:02x} " + " ".join(f"{v:08x}" for v in values))
for word, *cast in zip(bits(sweep), *(sweep.to(f).view(torch.uint8) for f in FORMATS)):
    lines.append(f"cast {word:08x} " + " ".join(f"{c:02x}" for c in cast))
target = pathlib.Path(__file__).parent / "fp8" / "casts.txt"
target.parent.mkdir(exist_ok=True)
target.write_text("\n".join(lines) + "\n")
