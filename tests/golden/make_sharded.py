"""Makes tests/golden/booster/sharded/: a model in several files with an index, cut by
huggingface_hub (2.4) and written by safetensors (0.8)."""

import json
import pathlib

import numpy
from huggingface_hub.serialization._base import split_state_dict_into_shards_factory
from safetensors.numpy import save_file

folder = pathlib.Path(__file__).parent / "booster" / "sharded"
folder.mkdir(exist_ok=True)

shapes = {"0.weight": (4, 5), "0.bias": (4,), "1.weight": (3, 4), "1.bias": (3,)}
start = 0
tensors = {}
for name, shape in shapes.items():
    count = int(numpy.prod(shape))
    tensors[name] = (numpy.arange(start, start + count, dtype=numpy.float32) / 8).reshape(shape)
    start += count

split = split_state_dict_into_shards_factory(
    tensors, get_storage_size=lambda tensor: tensor.nbytes,
    filename_pattern="model{suffix}.safetensors", max_shard_size=64)
for file, names in split.filename_to_tensors.items():
    save_file({name: tensors[name] for name in names}, folder / file, metadata={"format": "pt"})
index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
(folder / "model.safetensors.index.json").write_text(
    json.dumps(index, indent=2, sort_keys=True) + "\n")
