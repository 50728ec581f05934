"""Small models as ONNX files, run by onnxruntime: tests/golden/booster/onnx.json, which
tests/booster/export/onnx_test.cpp compares with booster's own results, after it has made the same
files. Needs onnx and onnxruntime; usage: python3 make_onnx.py BUILD_FOLDER
"""

import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime

CONFIGS = {
    "vit": {"name": "vit_tiny_patch16_224", "img_size": 20, "patch_size": 8, "embed_dim": 12,
            "depth": 2, "num_heads": 3, "num_classes": 5},
    "resnet20": {"name": "resnet20", "num_classes": 4},
    "gpt2": {"name": "gpt2", "vocab_size": 61, "n_positions": 12, "n_embd": 12, "n_layer": 2,
             "n_head": 3},
    "mistral": {"name": "mistral", "vocab_size": 61, "max_position_embeddings": 32, "hidden_size": 16,
                "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
                "num_key_value_heads": 2, "sliding_window": 5},
    "bert": {"name": "bert", "vocab_size": 61, "max_position_embeddings": 32, "hidden_size": 12,
             "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 3},
    "mlp": {"name": "mlp", "sizes": [6, 9, 3]},
    "mlp_flatten": {"name": "mlp", "sizes": [12, 7, 2], "flatten": True, "bias": False},
}
DATA = {"mlp_flatten": {"img_size": 2}}
INPUTS = {"vit": (3, 3, 20, 20), "resnet20": (2, 3, 13, 9), "gpt2": (2, 9),
          "mistral": (1, 9), "bert": (1, 5), "mlp": (4, 6), "mlp_flatten": (3, 3, 2, 2)}


def numbers(shape, salt):
    """The same in the C++ test: exact in f32 on every machine."""
    i = numpy.arange(numpy.prod(shape, dtype=numpy.int64), dtype=numpy.int64)
    return (((i * 7919 + salt * 31) % 2001 - 1000) / 4096).astype(numpy.float32).reshape(shape)


def input_of(name, shape):
    """Tokens for language models, numbers for the others."""
    if "vocab_size" not in CONFIGS[name]:
        return numbers(shape, 1)
    i = numpy.arange(numpy.prod(shape, dtype=numpy.int64), dtype=numpy.int64)
    return (i * 7919 % CONFIGS[name]["vocab_size"]).reshape(shape)


def weights_of(shapes):
    tensors = {}
    for name, shape in shapes.items():
        values = numbers(shape, len(name))
        tensors[name] = numpy.abs(values) + numpy.float32(0.5) if "running_var" in name else values
        if "num_batches" in name:
            tensors[name] = numpy.zeros(shape, numpy.int64)
    return tensors


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        kind = "I64" if tensor.dtype == numpy.int64 else "F32"
        header[name] = {"dtype": kind, "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + tensor.nbytes]}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def shapes_of(name):
    """Of the models, under PyTorch's names."""
    if name.startswith("mlp"):
        sizes, first = CONFIGS[name]["sizes"], 1 if CONFIGS[name].get("flatten") else 0
        shapes = {}
        for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
            shapes[f"{first + 2 * i}.weight"] = (b, a)
            if CONFIGS[name].get("bias", True):
                shapes[f"{first + 2 * i}.bias"] = (b,)
        return shapes
    if name == "gpt2":
        d = 12
        shapes = {"transformer.wte.weight": (61, d), "transformer.wpe.weight": (12, d)}
        for i in range(2):
            for layer, size in {"ln_1": (d,), "attn.c_attn": (3 * d, d), "attn.c_proj": (d, d),
                                "ln_2": (d,), "mlp.c_fc": (4 * d, d),
                                "mlp.c_proj": (d, 4 * d)}.items():
                shapes[f"transformer.h.{i}.{layer}.weight"] = size
                shapes[f"transformer.h.{i}.{layer}.bias"] = size[:1]
        return shapes | {"transformer.ln_f.weight": (d,), "transformer.ln_f.bias": (d,)}
    if name == "mistral":
        shapes = {"model.embed_tokens.weight": (61, 16), "model.norm.weight": (16,),
                  "lm_head.weight": (61, 16)}
        for i in range(2):
            for layer, size in {"input_layernorm": (16,), "self_attn.q_proj": (16, 16),
                                "self_attn.k_proj": (8, 16), "self_attn.v_proj": (8, 16),
                                "self_attn.o_proj": (16, 16), "post_attention_layernorm": (16,),
                                "mlp.gate_proj": (20, 16), "mlp.up_proj": (20, 16),
                                "mlp.down_proj": (16, 20)}.items():
                shapes[f"model.layers.{i}.{layer}.weight"] = size
        return shapes
    if name == "bert":
        d = 12
        shapes = {"bert.embeddings.word_embeddings.weight": (61, d),
                  "bert.embeddings.position_embeddings.weight": (32, d),
                  "bert.embeddings.token_type_embeddings.weight": (2, d)}
        layers = {"bert.embeddings.LayerNorm": (d,), "cls.predictions.transform.dense": (d, d),
                  "cls.predictions.transform.LayerNorm": (d,)}
        for i in range(2):
            key = f"bert.encoder.layer.{i}"
            for part in ("query", "key", "value"):
                layers[f"{key}.attention.self.{part}"] = (d, d)
            layers |= {f"{key}.attention.output.dense": (d, d),
                       f"{key}.attention.output.LayerNorm": (d,),
                       f"{key}.intermediate.dense": (20, d), f"{key}.output.dense": (d, 20),
                       f"{key}.output.LayerNorm": (d,)}
        for layer, size in layers.items():
            shapes[f"{layer}.weight"] = size
            shapes[f"{layer}.bias"] = size[:1]
        return shapes | {"cls.predictions.bias": (61,)}
    if name == "vit":
        d, tokens = 12, 5
        shapes = {"cls_token": (1, 1, d), "pos_embed": (1, tokens, d),
                  "patch_embed.proj.weight": (d, 3, 8, 8), "patch_embed.proj.bias": (d,)}
        for i in range(2):
            for layer, size in {"norm1": (d,), "attn.qkv": (3 * d, d), "attn.proj": (d, d),
                                "norm2": (d,), "mlp.fc1": (4 * d, d), "mlp.fc2": (d, 4 * d)}.items():
                shapes[f"blocks.{i}.{layer}.weight"] = size
                shapes[f"blocks.{i}.{layer}.bias"] = size[:1]
        return shapes | {"norm.weight": (d,), "norm.bias": (d,), "head.weight": (5, d),
                         "head.bias": (5,)}
    shapes = {}

    def norm(key, channels):
        for part in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{key}.{part}"] = (channels,)
        shapes[f"{key}.num_batches_tracked"] = ()

    shapes["conv1.weight"] = (16, 3, 3, 3)
    norm("bn1", 16)
    before = 16
    for stage, channels in enumerate((16, 32, 64), 1):
        for block in range(3):
            key = f"layer{stage}.{block}"
            shapes[f"{key}.conv1.weight"] = (channels, before, 3, 3)
            norm(f"{key}.bn1", channels)
            shapes[f"{key}.conv2.weight"] = (channels, channels, 3, 3)
            norm(f"{key}.bn2", channels)
            before = channels
    return shapes | {"fc.weight": (4, 64), "fc.bias": (4,)}


def main():
    build, folder = pathlib.Path(sys.argv[1]), pathlib.Path(tempfile.mkdtemp())
    golden = {}
    for name, config in CONFIGS.items():
        weights, settings, file = (folder / f"{name}{end}"
                                   for end in (".safetensors", ".json", ".onnx"))
        write_safetensors(weights, weights_of(shapes_of(name)))
        settings.write_text(json.dumps({"model": config} | ({"data": DATA[name]}
                                                            if name in DATA else {})))
        subprocess.run([build / "tools/booster", "export", weights, file, "--config", settings],
                       check=True)
        onnx.checker.check_model(onnx.load(file), full_check=True)
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        outputs = session.run(None, {"input": input_of(name, INPUTS[name])})[0]
        nothing = session.run(None, {"input": input_of(name, (0, *INPUTS[name][1:]))})[0]
        assert nothing.shape == (0, *outputs.shape[1:]), f"{name}: {nothing.shape} of an empty batch"
        golden[name] = {"model": config, "input": INPUTS[name], "bytes": file.stat().st_size,
                        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
                        "outputs": [[float(f"{x:.9g}") for x in row]
                                    for row in outputs.reshape(-1, outputs.shape[-1]).tolist()]}
    target = pathlib.Path(__file__).parent / "booster/onnx.json"
    target.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
