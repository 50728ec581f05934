"""The work of build/benchmarks/NAME in PyTorch: `torch_peer.py NAME [options] [--json]`.

Same options, same fields; eager mode, or --compile. Needs torch, and timm for vit_step, transformers for llama_step and generation,
torchvision and Pillow for loader. bound_gflops is that of PyTorch's own matmul.
"""

import argparse
import json
import math
import os
import platform
import resource
import sys
import tempfile
import time

import torch
from torch import nn

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WARM_UP = 2


def timed(steps, body):
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        body()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)


def result(options, work, seconds, **extra):
    fields = {
        "benchmark": options.name,
        "work": work,
        "seconds": seconds[len(seconds) // 2],
        "seconds_min": seconds[0],
        "steps": len(seconds),
        "threads": options.threads,
        "variant": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.processor() or platform.machine(),
        "versions": {"torch": torch.__version__},
    }
    fields.update(extra)
    return fields


# --- matrix products


def linear_shapes(rows, inputs, outputs, count, first=False):
    """(layout, m, n, k, count) of y = x w^T, dx = g w and dw = g^T x; no dx for the first layer."""
    products = [("a b^T", rows, outputs, inputs, count), ("a^T b", outputs, inputs, rows, count)]
    return products + [("a b", rows, inputs, outputs, count - first)]


def vit_products(batch, width, depth, tokens, patch_values):
    rows = batch * tokens
    blocks = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    products = [one for k, n in blocks for one in linear_shapes(rows, k, n, depth)]
    products += linear_shapes(batch, width, 1000, 1)
    return products + linear_shapes(batch * (tokens - 1), patch_values, width, 1, first=True)


def measure_products(products, dtype, runs):
    entries = []
    for layout, m, n, k, count in products:
        if count == 0:
            continue
        a = torch.randn(k, m, dtype=dtype).t() if layout == "a^T b" else torch.randn(m, k, dtype=dtype)
        b = torch.randn(n, k, dtype=dtype).t() if layout == "a b^T" else torch.randn(k, n, dtype=dtype)
        torch.mm(a, b)
        least = timed(runs, lambda: torch.mm(a, b))[0]
        size = 2e-9 * m * n * k
        entries.append({"dtype": str(dtype)[6:], "layout": layout, "m": m, "n": n, "k": k, "count": count,
                        "seconds_min": least, "gflop": size, "gflops": size / least})
    return entries


def total(entries):
    """GFLOP and seconds of all entries."""
    return [sum(entry[field] * entry["count"] for entry in entries) for field in ("gflop", "seconds_min")]


def bound(products, dtype):
    gflop, seconds = total(measure_products(products, dtype, 5))
    return gflop / seconds


# --- training steps


def optimizer_for(name, parameters, lr):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=lr, weight_decay=0.1, fused=True)
    if name == "sgd_momentum":
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=0.1, fused=True)
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, fused=True)
    sys.exit(f"--optimizer: no such optimizer; got {name}, want sgd, sgd_momentum or adamw")


def training(options, work, model, criterion, x, target, lr=1e-2, gflop=0, products=()):
    if options.compile:
        work, model = f"{work}, compiled", torch.compile(model)
    optimizer = optimizer_for(options.optimizer, model.parameters(), lr)
    lower = options.precision != "fp32"
    scaler = torch.amp.GradScaler(x.device.type, enabled=options.precision == "fp16")
    loss_value = math.nan

    def step():
        nonlocal loss_value
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, dtype=DTYPES[options.precision], enabled=lower):
            output = model(x)
        loss = criterion(output.float(), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss_value = loss.item()

    timed(WARM_UP, step)
    bound_before = bound(products, DTYPES[options.precision]) if products else 0
    seconds = timed(options.steps, step)
    fields = result(options, f"{work}, batch {options.batch}, training step in {options.precision}", seconds)
    if gflop:
        rate = gflop / fields["seconds"]
        fields.update(gflop=gflop, gflops=rate)
        if products:
            most = max(bound_before, bound(products, DTYPES[options.precision]))
            fields.update(bound_gflops=most, of_bound=rate / most)
    fields.update(
        precision=options.precision,
        loss=loss_value,
        images_per_s=options.batch / fields["seconds"],
        resident_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    return fields


def vit_step(options):
    import timm

    extra = {"depth": options.depth} if options.depth else {}
    model = timm.create_model(options.model, num_classes=1000, **extra).train()
    width, depth = model.embed_dim, len(model.blocks)
    tokens = model.pos_embed.shape[1]
    patch_values = model.patch_embed.proj.weight[0].numel()
    patch_embed = 2 * (tokens - 1) * patch_values * width
    block = 24 * tokens * width * width + 4 * tokens * tokens * width
    forward = patch_embed + depth * block + 2 * width * 1000
    gflop = 1e-9 * options.batch * (3 * forward - patch_embed)
    x = torch.randn(options.batch, 3, 224, 224)
    target = torch.arange(options.batch) % 1000
    on_cpu = options.device == "cpu"  # where the bound is measured
    products = vit_products(options.batch, width, depth, tokens, patch_values) if on_cpu else ()
    return training(options, options.model, model, nn.CrossEntropyLoss(), x, target, gflop=gflop,
                    products=products)


def llama_step(options):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=options.words, hidden_size=options.width, intermediate_size=options.hidden,
                         num_hidden_layers=options.layers, num_attention_heads=options.heads,
                         num_key_value_heads=options.key_value_heads, max_position_embeddings=options.tokens,
                         use_cache=False, attn_implementation="sdpa")
    llama = LlamaForCausalLM(config).train()
    if options.recompute:
        llama.gradient_checkpointing_enable()

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.llama = llama

        def forward(self, ids):
            return self.llama(ids).logits.flatten(0, 1)

    draw = lambda: torch.randint(options.words, (options.batch, options.tokens))
    keys = options.key_value_heads * (options.width // options.heads)
    block = options.width * (2 * options.width + 2 * keys + 3 * options.hidden)
    weights = options.layers * block + options.words * options.width
    scores = options.layers * options.tokens * options.width
    gflop = 6e-9 * (weights + scores) * options.batch * options.tokens
    fields = training(options, f"llama, {options.layers} blocks of {options.width}, {options.words} words", Logits(),
                      nn.CrossEntropyLoss(), draw(), draw().flatten(), lr=1e-4, gflop=gflop)
    fields["tokens_per_s"] = fields["images_per_s"] * options.tokens
    return fields


def linear_stack(options):
    width, layers = options.width, []
    for i in range(options.layers):
        layers.append(nn.Linear(width, width))
        if options.activation == "relu" and i + 1 < options.layers:
            layers.append(nn.ReLU())
    gflop = 2e-9 * options.batch * width * width * (3 * options.layers - 1)
    x, target = torch.randn(options.batch, width), torch.randn(options.batch, width)
    work = f"{options.layers} x Linear {width}, {options.activation}"
    return training(options, work, nn.Sequential(*layers), nn.MSELoss(), x, target, lr=1e-4, gflop=gflop,
                    products=linear_shapes(options.batch, width, width, options.layers, first=True))


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.added = stride, outputs - inputs

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.stride != 1 or self.added:
            x = nn.functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))
        return torch.relu(x + y)


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    inputs = 16
    for outputs in (16, 32, 64):
        for i in range(3):
            layers.append(ResidualBlock(inputs, outputs, 2 if i == 0 and outputs > 16 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def conv_stack(options):
    """Tries both memory layouts; the faster one is the result."""
    x, target = torch.randn(options.batch, 3, 32, 32), torch.arange(options.batch) % 10
    results = []
    for layout in (torch.contiguous_format, torch.channels_last):
        model = resnet20().to(memory_format=layout)
        work = f"resnet20, {str(layout)[6:]}"
        results.append(training(options, work, model, nn.CrossEntropyLoss(), x.to(memory_format=layout), target))
    return min(results, key=lambda fields: fields["seconds"])


# --- memory and calls


def copy_gbytes_per_s():
    source = torch.ones(64 << 20)
    target = torch.empty_like(source)
    return 2e-9 * source.numel() * 4 / timed(5, lambda: target.copy_(source))[0]


def vit_shapes(name):
    import timm

    return [p.shape for p in timm.create_model(f"{name}_patch16_224", num_classes=1000).parameters()]


def masters_step(parameters):
    """Check, norm, clip, unscale and fused AdamW on f32 masters of f16 parameters."""
    weights = [parameter.detach().half() for parameter in parameters]
    grads = [parameter.grad.half() for parameter in parameters]
    optimizer = optimizer_for("adamw", parameters, 1e-3)
    scaler = torch.amp.GradScaler("cpu")

    def body():
        scaler.scale(torch.zeros(()))
        torch._foreach_copy_([parameter.grad for parameter in parameters], grads)
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimizer)
        scaler.update()
        torch._foreach_copy_(weights, [parameter.detach() for parameter in parameters])

    return body


def optimizer_step(options):
    parameters = [nn.Parameter(torch.rand(shape)) for shape in vit_shapes(options.parameters)]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 1e-3)
    count = sum(parameter.numel() for parameter in parameters)
    if options.optimizer == "clip":
        body, counted = lambda: nn.utils.clip_grad_norm_(parameters, 1.0), 4
    elif options.optimizer == "adamw_fp16":
        body, counted = masters_step(parameters), 30
    else:
        body = optimizer_for(options.optimizer, parameters, 1e-3).step
        counted = {"sgd": 12, "sgd_momentum": 20, "adamw": 28}[options.optimizer]
    body()
    seconds = timed(options.steps, body)
    gbytes = 1e-9 * counted * count
    fields = result(options, f"{options.optimizer}, {options.parameters}, {count} parameters f32", seconds)
    fields.update(gbytes=gbytes, gbytes_per_s=gbytes / fields["seconds"], copy_gbytes_per_s=copy_gbytes_per_s())
    return fields


def op_overhead(options):
    taped = not options.no_tape
    a = torch.randn(options.size, options.size, requires_grad=taped)
    b = torch.randn(options.size, options.size, requires_grad=taped)
    op = (lambda: torch.mm(a, b)) if options.op == "matmul" else (lambda: torch.relu(a))
    calls = 1000

    def body():
        for _ in range(calls):
            op()

    body()
    seconds = [one / calls for one in timed(options.steps, body)]
    fields = result(options, f"{options.op} {options.size} x {options.size}", seconds)
    fields["nanoseconds"] = 1e9 * fields["seconds"]
    return fields


# --- generation by transformers


def generation(options):
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.generation.streamers import BaseStreamer

    class Times(BaseStreamer):
        """Of the prompt and of each new token; streamers take only one text."""

        def __init__(self):
            self.times = []

        def put(self, value):
            self.times.append(time.perf_counter())

        def end(self):
            pass

    config = LlamaConfig(vocab_size=32000, hidden_size=options.width, intermediate_size=options.width // 3 * 8,
                         num_hidden_layers=options.layers, num_attention_heads=options.width // 64)
    model = LlamaForCausalLM(config).eval().to(DTYPES[options.precision])
    ids = torch.tensor([[100 * i + j for j in range(options.prompt)] for i in range(options.batch)])

    def run(tokens, streamer=None):
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens,
                       pad_token_id=0, streamer=streamer)

    def seconds_of():
        if options.batch == 1:
            streamer = Times()
            run(options.tokens, streamer)
            return (streamer.times[-1] - streamer.times[1]) / (options.tokens - 1)
        start = time.perf_counter()
        run(1)
        middle = time.perf_counter()
        run(options.tokens)
        return (time.perf_counter() - middle - (middle - start)) / (options.tokens - 1)

    seconds_of()
    seconds = sorted(seconds_of() for _ in range(options.steps))
    fields = result(options, f"llama {options.layers} x {options.width}, batch {options.batch}, {options.precision}", seconds)
    read = sum(p.numel() * p.element_size() for name, p in model.named_parameters() if "embed_tokens" not in name)
    fields.update(tokens_per_s=options.batch / fields["seconds"], gbytes_per_s=1e-9 * read / fields["seconds"])
    return fields


# --- reductions, as in ../reductions.cpp

LAYOUTS = {
    "all of 1048576": ((1 << 20,), [0]),
    "first of 1024 x 1024": ((1024, 1024), [0]),
    "last of 1024 x 1024": ((1024, 1024), [1]),
    "middle of 16 x 64 x 1024": ((16, 64, 1024), [1]),
    "middle of 8 x 8 x 4096": ((8, 8, 4096), [1]),
    "first and third of 16 x 32 x 64 x 32": ((16, 32, 64, 32), [0, 2]),
    "first of 100000 x 8": ((100000, 8), [0]),
    "last of 100000 x 8": ((100000, 8), [1]),
    "last of 1024 x 1024 transposed": ((1024, 1024), [1]),
    "first of half the columns of 1024 x 1024": ((1024, 1024), [0]),
    "last of 64 x 64": ((64, 64), [1]),
    "first of 64 x 64": ((64, 64), [0]),
}
OF_SEVERAL = {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "var": torch.var, "norm": lambda x, dims: torch.linalg.vector_norm(x, 2, dims),
              "logsumexp": torch.logsumexp}
OF_ONE = {"argmax": torch.argmax, "argmin": torch.argmin, "max": torch.max, "softmax": torch.softmax, "cumsum": torch.cumsum}
OF_INTEGERS = ("sum", "amax", "argmax")


def drawn_layout(layout, dtype):
    x = torch.randn(LAYOUTS[layout][0])
    x = (x if dtype.is_floating_point else x * 100).to(dtype)
    if "transposed" in layout:
        return x.t()
    return x[:, :512] if "half" in layout else x


def reductions(options):
    microseconds = {}
    for op, function in {**OF_SEVERAL, **OF_ONE}.items():
        for dtype_name, dtype in {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64}.items():
            for layout, (_, dims) in LAYOUTS.items():
                name = f"{op} {dtype_name}, {layout}"
                if options.only not in name or (dtype_name == "i64" and op not in OF_INTEGERS) or (op in OF_ONE and len(dims) > 1):
                    continue
                x = drawn_layout(layout, dtype)
                along = dims[0] if op in OF_ONE else dims
                function(x, along)
                microseconds[name] = 1e6 * timed(options.steps, lambda: function(x, along))[0]
    return result(options, "each reduction once, fastest runs", [sum(microseconds.values()) / 1e6], microseconds=microseconds)


def matmul_bound(options):
    """GFLOP/s of torch.mm on the shapes of ViT-B/16 (batch 8), ViT-Ti/16 (16) and 3 x Linear 4096 (512)."""
    products = vit_products(8, 768, 12, 197, 768) + vit_products(16, 192, 12, 197, 768)
    products += linear_shapes(512, 4096, 4096, 3)
    dtypes = {"all": ["fp32", "bf16"], "f32": ["fp32"]}.get(options.dtype, [options.dtype])
    entries = [entry for name in dtypes for entry in measure_products(products, DTYPES[name], options.steps)]
    gflop, seconds = total(entries)
    return result(options, "matrix products of training steps", [seconds], gflop=gflop, gflops=gflop / seconds,
                  shapes=entries)


# --- loader


def jpeg_files(folder):
    return sorted(
        os.path.join(path, name)
        for path, _, names in os.walk(folder)
        for name in names
        if name.lower().endswith((".jpg", ".jpeg"))
    )


def make_files(folder):
    """128 pictures of 300 x 230 with structure at all scales, about 24 KB each."""
    from PIL import Image

    for i in range(128):
        generator = torch.Generator().manual_seed(i)
        picture = torch.zeros(3, 230, 300)
        for level in range(6):
            noise = torch.rand(1, 3, 230 * 2**level // 64 + 2, 300 * 2**level // 64 + 2, generator=generator) - 0.5
            picture += nn.functional.interpolate(noise, (230, 300), mode="bilinear")[0] * 160 / 2 ** (level / 2)
        picture += 26 * (torch.rand(1, 230, 300, generator=generator) - 0.5)
        bytes_ = (picture + 128).clamp(0, 255).byte().permute(1, 2, 0).numpy()
        Image.fromarray(bytes_).save(f"{folder}/{i:03}.jpg", quality=90)


def load_folder(options, folder):
    from torchvision import io
    from torchvision.transforms import v2

    transform = v2.Compose([
        v2.Resize(256, antialias=True), v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3),
    ])
    files = jpeg_files(folder)
    kilobytes = sum(os.path.getsize(path) for path in files) / 1000 / len(files)

    def one_pass():
        for i in range(0, len(files), options.batch):
            torch.stack([transform(io.decode_image(path, io.ImageReadMode.RGB)) for path in files[i : i + options.batch]])

    torch.set_num_threads(1)
    one_pass()
    cpu = time.process_time()
    seconds = timed(options.steps, one_pass)
    cpu = (time.process_time() - cpu) / options.steps
    fields = result(options, f"{len(files)} JPEG files of {kilobytes:.1f} KB, v2 transforms", seconds)
    fields.update(images_per_s=len(files) / fields["seconds"], images_per_cpu_s=len(files) / cpu)
    return fields


def loader(options):
    """In the main process: the speed of one core, comparable to --workers 1."""
    if options.data:
        return load_folder(options, options.data)
    with tempfile.TemporaryDirectory() as folder:
        make_files(folder)
        return load_folder(options, folder)


OPTIONS = {
    vit_step: {"model": "vit_base_patch16_224", "batch": 8, "depth": 0, "device": "cpu", "precision": "bf16", "optimizer": "sgd",
               "compile": False, "steps": 5},
    llama_step: {"batch": 4, "tokens": 1024, "layers": 12, "width": 768, "hidden": 2048, "heads": 12, "key_value_heads": 12,
                 "words": 32000, "precision": "bf16", "optimizer": "adamw", "recompute": False, "compile": False, "steps": 3},
    linear_stack: {"layers": 3, "width": 4096, "batch": 512, "activation": "relu", "precision": "fp32", "optimizer": "sgd", "compile": False,
                   "steps": 5},
    conv_stack: {"model": "resnet20", "batch": 128, "device": "cpu", "precision": "fp32", "optimizer": "sgd_momentum",
                 "compile": False, "steps": 10},
    optimizer_step: {"optimizer": "sgd", "parameters": "vit_base", "steps": 20},
    generation: {"layers": 12, "width": 768, "batch": 1, "tokens": 128, "prompt": 8, "precision": "fp32", "steps": 5},
    op_overhead: {"op": "matmul", "size": 8, "no-tape": False, "steps": 200},
    reductions: {"only": "", "steps": 50},
    matmul_bound: {"dtype": "all", "steps": 5},
    loader: {"data": "", "workers": 1, "batch": 64, "steps": 5},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="name", required=True)
    for work, defaults in OPTIONS.items():
        command = commands.add_parser(work.__name__)
        command.set_defaults(work=work)
        command.add_argument("--threads", type=int, default=torch.get_num_threads())
        command.add_argument("--json", action="store_true")
        for name, default in defaults.items():
            kind = {"action": "store_true"} if default is False else {"type": type(default), "default": default}
            command.add_argument(f"--{name}", **kind)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(42)
    if "device" in options:
        torch.set_default_device(options.device)
    torch.backends.cudnn.allow_tf32 = False  # strict f32, as ours
    fields = options.work(options)
    if options.json:
        print(json.dumps(fields))
    else:
        for name, value in fields.items():
            print(f"{name:20} {value}")


if __name__ == "__main__":
    main()
