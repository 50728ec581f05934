"""Makes tests/golden/data/{mixup,mixup_modes,random_erasing,repeated_augmentation}.json: what timm's Mixup
makes of batches with given shares and rectangles and how it draws them, how timm's RandomErasing
draws its rectangles, and which samples timm's RepeatAugSampler takes; rand_augment.json and .bin:
the magnitudes of torchvision's RandAugment, and what its operations make of Pillow's images. Needs
timm >= 1.0, torchvision >= 0.20 and Pillow >= 11.

rand_augment.bin: three images, each int32 width, height, channels and its bytes. Then cases: int32
operation (its place in rand_augment.json), image, bilinear, fill, a double, the magnitude, and the
result's bytes.
"""
import json
import pathlib
import random
import struct

import numpy as np
import torch
from timm.data import mixup as timm_mixup
from timm.data.distributed_sampler import RepeatAugSampler
from timm.data.random_erasing import RandomErasing
from PIL import Image
from torchvision.transforms import InterpolationMode, RandAugment
from torchvision.transforms.autoaugment import _apply_op

HERE = pathlib.Path(__file__).parent / "data"
np.random.seed(3)
random.seed(3)
torch.manual_seed(3)


def write(name, cases):
    (HERE / name).write_text(json.dumps(cases, separators=(",", ":")) + "\n")


def numbers(tensor):
    return [float(f"{x:.9g}") for x in tensor.flatten()]  # all digits of f32


def mixed(n, side, classes, smoothing, lam, cutmix):
    """A batch through timm's Mixup, with the share (and the rectangle) that it used."""
    seen = {"box": None, "lam": lam}

    def record(*args, **options):
        (yl, yh, xl, xh), corrected = bbox_and_lam(*args, **options)
        seen.update(box=[int(xl), int(yl), int(xh - xl), int(yh - yl)], lam=float(corrected))
        return (yl, yh, xl, xh), corrected

    bbox_and_lam = timm_mixup.cutmix_bbox_and_lam
    timm_mixup.cutmix_bbox_and_lam = record
    mixup = timm_mixup.Mixup(cutmix_alpha=1, label_smoothing=smoothing, num_classes=classes)
    mixup._params_per_batch = lambda: (lam, cutmix)
    image = torch.randint(-90, 90, (n, 2, side, side + 1)) / 32
    label = torch.randint(classes, (n,))
    result, target = mixup(image.clone(), label)
    timm_mixup.cutmix_bbox_and_lam = bbox_and_lam
    return {"shape": list(image.shape), "image": numbers(image), "label": label.tolist(),
            "classes": classes, "smoothing": smoothing, **seen, "mixed": numbers(result),
            "target": numbers(target)}


def moments(values):
    values = np.asarray(values, dtype=float)
    return [float(values.mean()), float(values.std())]


def drawn_mixes(draws, **options):
    """Of many draws: how often it is CutMix, and the share's mean and deviation in either way."""
    mixup = timm_mixup.Mixup(label_smoothing=0, num_classes=2, **options)
    shares = {False: [], True: []}
    whole = 0
    for _ in range(draws):
        lam, cutmix = mixup._params_per_batch()
        if lam == 1:
            whole += 1
            continue
        if cutmix:
            _, lam = timm_mixup.cutmix_bbox_and_lam((3, 24, 32), lam, mixup.cutmix_minmax)
        shares[bool(cutmix)].append(lam)
    return {"options": options, "height": 24, "width": 32, "whole": whole / draws,
            "cutmix": len(shares[True]) / draws,
            "mixup_lam": moments(shares[False]) if shares[False] else None,
            "cutmix_lam": moments(shares[True]) if shares[True] else None}


def mixups():
    cases = [mixed(n, side, classes, smoothing, lam, cutmix)
             for n, side, classes in ((2, 3, 5), (6, 5, 3))
             for smoothing in (0.0, 0.1)
             for lam, cutmix in ((0.3, False), (0.9, False), (0.4, True), (0.7, True), (1, False))]
    options = [dict(mixup_alpha=0.2, cutmix_alpha=0),
               dict(mixup_alpha=0.8, cutmix_alpha=1.0, prob=0.7, switch_prob=0.3),
               dict(mixup_alpha=0, cutmix_alpha=2.0),
               dict(mixup_alpha=2.0, cutmix_minmax=[0.2, 0.8])]
    write("mixup.json", {"cases": cases, "draws": [drawn_mixes(40000, **o) for o in options]})


def mixed_each(mode, n, side, classes, smoothing):
    """A batch through timm's Mixup in mode pair or elem, with what it used for each sample."""
    drawn = n // 2 if mode == "pair" else n
    lams = np.random.beta(1, 1, size=drawn).astype(np.float32)
    lams[np.random.rand(drawn) < 0.3] = 1
    cutmix = np.random.rand(drawn) < 0.5
    seen = []

    def record(*args, **options):
        (yl, yh, xl, xh), lam = bbox_and_lam(*args, **options)
        seen.append(([int(xl), int(yl), int(xh - xl), int(yh - yl)], float(lam)))
        return (yl, yh, xl, xh), lam

    bbox_and_lam = timm_mixup.cutmix_bbox_and_lam
    timm_mixup.cutmix_bbox_and_lam = record
    mixup = timm_mixup.Mixup(cutmix_alpha=1, mode=mode, label_smoothing=smoothing,
                             num_classes=classes)
    mixup._params_per_elem = lambda _: (lams.copy(), cutmix)
    image = torch.randint(-90, 90, (n, 2, side, side + 1)) / 32
    label = torch.randint(classes, (n,))
    result, target = mixup(image.clone(), label)
    timm_mixup.cutmix_bbox_and_lam = bbox_and_lam
    boxes = iter(seen)
    mixes = [dict(zip(("box", "lam"), next(boxes))) if by_box and lam != 1
             else {"box": None, "lam": float(lam)} for lam, by_box in zip(lams, cutmix)]
    if mode == "pair":
        mixes += mixes[::-1]
    return {"shape": list(image.shape), "image": numbers(image), "label": label.tolist(),
            "classes": classes, "smoothing": smoothing, "mixes": mixes, "mixed": numbers(result),
            "target": numbers(target)}


def mixups_each():
    write("mixup_modes.json", [mixed_each(mode, n, side, classes, smoothing)
                               for mode in ("pair", "elem")
                               for n, side, classes in ((2, 4, 5), (8, 5, 3))
                               for smoothing in (0.0, 0.1)])


def drawn_boxes(width, height, draws, **options):
    """Of many draws: rectangles per image, mean and deviation of their corners and sides."""
    boxes = []
    erasing = RandomErasing(device="cpu", **options)
    for _ in range(draws):
        image = torch.ones(1, height, width)
        rows, columns = (erasing(image)[0] == 0).nonzero(as_tuple=True)
        if len(rows):
            left, top = int(columns.min()), int(rows.min())
            boxes.append([left, top, int(columns.max()) - left + 1, int(rows.max()) - top + 1])
    left, top, w, h = np.asarray(boxes).T
    return {"width": width, "height": height, "options": options, "erased": len(boxes) / draws,
            "left": moments(left), "top": moments(top), "w": moments(w), "h": moments(h),
            "area": moments(w * h)}


def erasings():
    write("random_erasing.json",
          [drawn_boxes(32, 24, 20000, probability=0.4),
           drawn_boxes(20, 40, 20000, probability=1.0, min_area=0.1, max_area=0.9, min_aspect=0.5),
           drawn_boxes(17, 17, 20000, probability=0.7, min_area=0.02, max_area=0.33, min_aspect=0.3,
                       max_aspect=3.3)])


def samplers():
    cases = []
    for size, ranks, repeats in ((10, 1, 3), (11, 3, 3), (300, 2, 3), (600, 4, 2), (5, 2, 4)):
        for rank in range(ranks):
            sampler = RepeatAugSampler(range(size), num_replicas=ranks, rank=rank, shuffle=False,
                                       num_repeats=repeats)
            cases.append({"size": size, "ranks": ranks, "rank": rank, "repeats": repeats,
                          "indices": list(iter(sampler))})
    write("repeated_augmentation.json", cases)


def pictures():
    """A colour picture, a grey one, and one of few colours, whose channels do not reach the ends."""
    rng = np.random.default_rng(11)
    y, x = np.mgrid[0:14, 0:19]
    wave = np.stack([128 + 100 * np.sin(x / (2 + c) + y / 3) + 12 * rng.normal(size=x.shape)
                     for c in range(3)], -1)
    few = 40 + 30 * rng.integers(0, 5, size=(9, 23, 3))
    return [Image.fromarray(np.clip(wave, 0, 255).astype(np.uint8)),
            Image.fromarray(np.clip(wave[:, :, 0] * 1.1, 0, 255).astype(np.uint8)),
            Image.fromarray(few.astype(np.uint8))]


def rand_augments():
    images = pictures()
    names = list(RandAugment()._augmentation_space(31, (1, 1)))
    out = bytearray()
    for image in images:
        out += struct.pack("<3i", *image.size, len(image.getbands())) + image.tobytes()
    for operation, name in enumerate(names):
        for index, image in enumerate(images):
            space = RandAugment()._augmentation_space(31, image.size[::-1])
            values, signed = space[name]
            is_moved = name.startswith(("Shear", "Translate", "Rotate"))
            for level in (0, 9, 17, 30) if values.ndim else (0,):
                value = float(values[level]) if values.ndim else 0.0
                for magnitude in (value, -value) if signed and value else (value,):
                    for bilinear, fill in ((0, 0), (1, 77)) if is_moved else ((0, 0),):
                        mode = InterpolationMode.BILINEAR if bilinear else InterpolationMode.NEAREST
                        fills = [fill] * len(image.getbands())
                        result = _apply_op(image, name, magnitude, mode, fills if fill else None)
                        out += struct.pack("<4id", operation, index, bilinear, fill, magnitude)
                        out += result.tobytes()
    (HERE / "rand_augment.bin").write_bytes(out)
    magnitudes = []
    for bins, level, width, height in ((31, 9, 224, 224), (31, 30, 97, 31), (31, 15, 60, 200),
                                       (10, 7, 32, 48), (11, 5, 224, 100), (2, 1, 5, 5)):
        space = RandAugment()._augmentation_space(bins, (height, width))
        magnitudes.append({"bins": bins, "magnitude": level, "width": width, "height": height,
                           "operations": [[name, float(v[level]) if v.ndim else 0.0, signed]
                                          for name, (v, signed) in space.items()]})
    write("rand_augment.json", {"names": names, "magnitudes": magnitudes})


mixups()
erasings()
samplers()
rand_augments()
mixups_each()
