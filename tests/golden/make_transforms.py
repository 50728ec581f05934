"""Golden results of torchvision's pad and adjust_ functions on Pillow's images.

    python tests/golden/make_transforms.py

Writes tests/golden/data/padding.bin and colors.bin with torchvision 0.29, Pillow 13.0 and torch
2.15. padding.bin: cases of 11 int32 (width height channels left top right bottom mode red green
blue; mode: 0 constant, 1 edge, 2 reflect, 3 symmetric), the source and the result. colors.bin: cases
of 8 int32 (width height channels, how often; then the numbers of up to 4 functions in their order: 0
brightness, 1 contrast, 2 saturation, 3 hue), 4 float64 (their factors), the source and the result; then
the CRC-32 of `cube`, 86 x 86 x 86 colours, after adjust_hue with each of HUES.
"""
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image
from torchvision.transforms import functional as F

HERE = pathlib.Path(__file__).parent / "data"
rng = np.random.default_rng(11)
MODES = ["constant", "edge", "reflect", "symmetric"]
ADJUST = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue]
HUES = [-0.5, -0.31, -0.1, 0.001, 0.0, 0.07, 0.25, 0.499, 0.5]


def picture(width, height, channels):
    array = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
    if rng.integers(3) == 0:  # few colours, so that some are grey, black and white
        array = array // 128 * 255
    return array


def as_image(array):
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def padding():
    with open(HERE / "padding.bin", "wb") as out:
        for case in range(80):
            w, h, c, mode = *rng.integers(1, 9, 2), (1, 3)[rng.integers(2)], case % 4
            borders = [int(n) for n in rng.integers(0, 12, 4)]
            fill = [int(n) for n in rng.integers(0, 256, 3)] if c == 3 else [77] * 3
            source = picture(w, h, c)
            result = np.asarray(F.pad(as_image(source), borders,
                                      tuple(fill) if c == 3 else 77, MODES[mode]))
            out.write(struct.pack("<11i", w, h, c, *borders, mode, *fill) + source.tobytes() +
                      result.tobytes())


def factor(which):
    if which == 3:
        return float(rng.uniform(-0.5, 0.5))
    return [0.0, 1.0, float(rng.uniform(0, 1)), float(rng.uniform(1, 3))][rng.integers(4)]


def colors():
    with open(HERE / "colors.bin", "wb") as out:
        for _ in range(120):
            w, h, c = *rng.integers(1, 12, 2), (1, 3, 3)[rng.integers(3)]
            order = [int(n) for n in rng.permutation(4)[:rng.integers(1, 5)]]
            factors = [factor(which) for which in order]
            source = picture(w, h, c)
            image = as_image(source)
            for which, by in zip(order, factors):
                image = ADJUST[which](image, by)
            padded = order + [0] * (4 - len(order)), factors + [0.0] * (4 - len(order))
            out.write(struct.pack("<8i4d", w, h, c, len(order), *padded[0], *padded[1]) +
                      source.tobytes() + np.asarray(image).tobytes())
        steps = np.arange(0, 256, 3, dtype=np.uint8)
        cube = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), -1).reshape(86, -1, 3)
        for by in HUES:
            turned = np.asarray(F.adjust_hue(Image.fromarray(cube), by))
            out.write(struct.pack("<I", zlib.crc32(turned.tobytes())))


if __name__ == "__main__":
    padding()
    colors()
