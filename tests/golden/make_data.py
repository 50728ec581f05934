"""Makes tests/golden/data: small image files written by other programs, with the pixels that Pillow
reads and resizes from them, and the results of torchvision's transforms.

Files NAME.jpg, NAME.png are inputs. NAME.raw is what they decode to: a text line
"width height channels", then the bytes. resize.bin holds cases of 8 int32 (width height channels
out_width out_height bicubic left top; box size = width height) followed by source and result.
Needs Pillow >= 13, numpy, torch and torchvision.
"""
import io
import pathlib
import random
import struct
import zlib

import numpy as np
import torch
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional as F

HERE = pathlib.Path(__file__).parent / "data"
HERE.mkdir(exist_ok=True)
rng = np.random.default_rng(7)
random.seed(7)


def picture(width, height, channels=3):
    y, x = np.mgrid[0:height, 0:width]
    planes = [128 + 90 * np.sin(x / (5 + c) + c) * np.cos(y / (7 - c)) + 12 * rng.normal(size=x.shape)
              for c in range(channels)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def raw(name, array):
    array = np.ascontiguousarray(array if array.ndim == 3 else array[:, :, None])
    h, w, c = array.shape
    (HERE / f"{name}.raw").write_bytes(f"{w} {h} {c}\n".encode() + array.tobytes())


def as_loaded(path):
    image = Image.open(path)
    return np.asarray(image if image.mode == "L" else image.convert("RGB"))


def save(name, image, **options):
    path = HERE / name
    image.save(path, **options)
    raw(name, as_loaded(path))


def images():
    colour, grey = Image.fromarray(picture(45, 34)), Image.fromarray(picture(37, 29, 1)[:, :, 0])
    save("baseline420.jpg", colour, quality=85, subsampling=2)
    save("baseline422.jpg", colour, quality=85, subsampling=1)
    save("baseline444.jpg", colour, quality=95, subsampling=0)
    save("progressive.jpg", colour, quality=80, progressive=True)
    save("restart.jpg", colour, quality=75, restart_marker_blocks=2)
    save("grey.jpg", grey, quality=90)
    cmyk = Image.fromarray(picture(40, 31, 4), mode="CMYK")
    save("cmyk.jpg", cmyk, quality=90)
    save("one.jpg", Image.fromarray(picture(1, 1)))
    save("rgb.png", colour)
    save("grey.png", grey)
    save("bilevel.png", grey.convert("1"))
    raw("bilevel.png", np.asarray(Image.open(HERE / "bilevel.png").convert("L")))
    save("palette.png", colour.quantize(16))
    save("palette_transparent.png", colour.quantize(8), transparency=3)
    rgba = np.concatenate([picture(33, 21), picture(33, 21, 1)], -1)
    save("rgba.png", Image.fromarray(rgba))
    save("grey_alpha.png", Image.fromarray(rgba[:, :, 2:], mode="LA"))
    raw("grey_alpha.png", rgba[:, :, 2])
    interlaced()
    sixteen_bits()
    orientations(colour)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, colour, data, interlace=0):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data, 9)) +
            chunk(b"IEND", b""))


def interlaced():
    a = picture(19, 13)
    data = b""
    for x0, y0, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                           (1, 0, 2, 2), (0, 1, 1, 2)]:
        for row in a[y0::dy, x0::dx]:
            if row.size:
                data += b"\0" + row.tobytes()
    (HERE / "interlaced.png").write_bytes(png(19, 13, 8, 2, data, 1))
    raw("interlaced.png", as_loaded(HERE / "interlaced.png"))


def sixteen_bits():
    grey = rng.integers(0, 65536, (11, 17), dtype=np.uint16)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in grey)
    (HERE / "grey16.png").write_bytes(png(17, 11, 16, 0, rows))
    raw("grey16.png", np.round(grey / 257.0).astype(np.uint8))  # Pillow would clip
    colour = rng.integers(0, 65536, (11, 17, 3), dtype=np.uint16)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in colour)
    (HERE / "rgb16.png").write_bytes(png(17, 11, 16, 2, rows))
    raw("rgb16.png", as_loaded(HERE / "rgb16.png"))
    rows = b"".join(b"\0" + struct.pack(">10H", *range(y, 55550, 5555)) for y in (0, 333, 777))
    (HERE / "grey_alpha16.png").write_bytes(png(5, 3, 16, 4, rows))
    raw("grey_alpha16.png", as_loaded(HERE / "grey_alpha16.png")[:, :, 0])


def orientations(colour):
    from PIL import ImageOps
    for value in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = value
        path = HERE / f"orientation{value}.jpg"
        colour.crop((0, 0, 24, 16)).save(path, quality=90, exif=exif)
        raw(path.name, np.asarray(ImageOps.exif_transpose(Image.open(path))))
    late_orientation()


def late_orientation():
    """A PNG that says how it lies behind its pixels, and otherwise before them."""
    from PIL import ImageOps
    exif = [b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x0112, 3, 1, value, 0) for value in (3, 6)]
    rows = b"".join(b"\0" + bytes(range(40 * y, 40 * y + 5)) for y in range(4))
    plain = png(5, 4, 8, 0, rows)
    header, pixels, end = plain[:33], plain[33:-12], plain[-12:]
    path = HERE / "late_orientation.png"
    path.write_bytes(header + chunk(b"eXIf", exif[0]) + pixels + chunk(b"eXIf", exif[1]) + end)
    raw(path.name, np.asarray(ImageOps.exif_transpose(Image.open(path))))


def resizes():
    with open(HERE / "resize.bin", "wb") as out:
        for case in range(120):
            w, h, ow, oh = (random.choice([1, 2, random.randint(1, 24), random.randint(1, 40)])
                            for _ in range(4))
            if case % 6 == 0:
                ow = w
            if case % 6 == 1:
                oh = h
            c, cubic = random.choice([1, 3]), random.randint(0, 1)
            a = picture(w, h, c) if case % 3 else rng.integers(0, 2, (h, w, c), dtype=np.uint8) * 255
            left, top = random.randint(0, w - 1), random.randint(0, h - 1)
            if case % 2:
                left = top = 0
            image = Image.fromarray(a[:, :, 0] if c == 1 else a).crop((left, top, w, h))
            b = np.asarray(image.resize((ow, oh), [Image.BILINEAR, Image.BICUBIC][cubic]))
            out.write(struct.pack("<8i", w, h, c, ow, oh, cubic, left, top) + a.tobytes() +
                      b.tobytes())


def evaluation():
    """Resize, CenterCrop, ToTensor, Normalize as torchvision; f32 (3, 12, 12) each."""
    with open(HERE / "evaluation.bin", "wb") as out:
        for w, h, side in [(45, 34, 16), (34, 45, 16), (20, 61, 24), (13, 9, 10), (40, 40, 12)]:
            a = picture(w, h)
            t = transforms.Compose([transforms.Resize(side), transforms.CenterCrop(12),
                                    transforms.ToTensor(),
                                    transforms.Normalize([0.485, 0.456, 0.406],
                                                         [0.229, 0.224, 0.225])])
            result = t(Image.fromarray(a)).numpy()
            out.write(struct.pack("<3i", w, h, side) + a.tobytes() + result.tobytes())


def training():
    """The tutorial's chain with given random choices: box (left top width height) and flip."""
    with open(HERE / "training.bin", "wb") as out:
        for w, h, box, flip in [(60, 46, (3, 5, 30, 22), 0), (46, 60, (0, 1, 32, 40), 1),
                                (50, 37, (6, 0, 11, 32), 1), (33, 90, (1, 9, 30, 70), 0)]:
            a = picture(w, h)
            left, top, bw, bh = box
            image = F.resized_crop(F.resize(Image.fromarray(a), 32), top, left, bh, bw, [20, 20])
            if flip:
                image = F.hflip(image)
            result = F.normalize(F.to_tensor(image), [0.5] * 3, [0.5] * 3).numpy()
            out.write(struct.pack("<7i", w, h, *box, flip) + a.tobytes() + result.tobytes())


if __name__ == "__main__":
    images()
    resizes()
    evaluation()
    training()
