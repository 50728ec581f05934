"""Golden numbers of small BERTs from Hugging Face. Writes tests/golden/bert/, or drawn ones:

    python tests/golden/make_bert.py
    python tests/golden/make_bert.py --drawn 30 --out /tmp/berts
    BERT_FOLDERS=/tmp/berts BERT_WRITTEN=/tmp/written build/tests/checkpoint_test -tc='*berts*'
    python tests/golden/make_bert.py --check /tmp/written

Every second drawn folder has several files. --check loads what booster wrote after a step, and
compares outputs.

Versions that made the committed files: PyTorch 2.15.0, transformers 5.24.0 (CPU).

NAME/model.safetensors and NAME/config.json are what save_pretrained writes.
NAME/expected.safetensors holds, computed in double without dropout: "input" (n, 3, tokens), the
planes ids, token types and attention mask; "output" for it, "plain" for its ids alone, "half" for
it in bfloat16; "labels", "loss", "gradient.NAME" (stored in f32) and the "losses" of ten steps of
AdamW. A BertModel has "features" (last_hidden_state) too, and no labels. The input of "texts" is
what Hugging Face's tokenizers make of the pairs below with tests/golden/text/bert.json.
"""
import argparse
import json
import pathlib
import random

import torch
from safetensors.torch import load_file, save_file
import transformers
from tokenizers import Tokenizer
from transformers import BertConfig

SIZES = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, max_position_embeddings=16)
LABELS = {0: "bad", 1: "fair", 2: "good"}
HERE = pathlib.Path(__file__).parent
PAIRS = [("Hello, world!", "The quick brown fox jumps."), ("One", "two three"),
         ("Über naïve 漢字", "")]
# name: (class, options)
CASES = {
    "base": ("BertModel", dict(hidden_act="relu", layer_norm_eps=1e-5)),
    "masked": ("BertForMaskedLM", dict(pad_token_id=3)),
    "sequences": ("BertForSequenceClassification", dict(id2label=LABELS,
                                                    label2id={v: k for k, v in LABELS.items()},
                                                    hidden_act="gelu_new")),
    "tokens": ("BertForTokenClassification",
               dict(id2label={i: f"T{i}" for i in range(5)}, classifier_dropout=0.2,
                    type_vocab_size=3, pad_token_id=None)),
}
ACTIVATIONS = ["gelu", "gelu_python", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu",
               "relu", "relu2", "leaky_relu", "silu", "swish", "mish", "tanh", "sigmoid", "linear"]
STEPS = 10
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1)


def shaken(model):
    """Gives the model scales and shifts that matter, and weights that are not small."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1:
                p.add_(torch.randn_like(p) * 0.2)
            else:
                p.mul_(5)


def input_of(config, n, tokens):
    """Planes: ids, token types, attention mask. Texts after the first end in padding."""
    padding = 0 if config.pad_token_id is None else config.pad_token_id
    ids = torch.randint(0, config.vocab_size, (n, tokens))
    types = torch.randint(0, config.type_vocab_size, (n, tokens))
    mask = torch.ones((n, tokens), dtype=torch.long)
    for i in range(1, n):
        length = int(torch.randint(1, tokens + 1, ()))
        ids[i, length:], types[i, length:], mask[i, length:] = padding, 0, 0
    return torch.stack([ids, types, mask], 1)


def labels_of(model, planes):
    """Labels for the model's head; some tokens have none."""
    ids, mask = planes[:, 0], planes[:, 2]
    kind = type(model).__name__
    if kind == "BertForSequenceClassification":
        return torch.randint(0, model.config.num_labels, (len(ids),))
    classes = model.config.vocab_size if kind == "BertForMaskedLM" else model.config.num_labels
    labels = torch.randint(0, classes, ids.shape)
    labels[torch.rand(ids.shape) < 0.4] = -100
    labels[0, 0] = 1
    return labels.masked_fill(mask == 0, -100)


def input_of_texts():
    """The same planes, of PAIRS."""
    tokenizer = Tokenizer.from_file(str(HERE / "text" / "bert.json"))
    tokenizer.enable_padding(pad_id=0)
    all = tokenizer.encode_batch(PAIRS)
    return torch.tensor([[one.ids, one.type_ids, one.attention_mask] for one in all])


def make(folder, kind, config, n=3, tokens=9, planes=None, shard="50GB"):
    model = getattr(transformers, kind)(config).eval()
    shaken(model)
    model.save_pretrained(folder, max_shard_size=shard)
    planes = input_of(config, n, tokens) if planes is None else planes
    given = dict(input_ids=planes[:, 0], token_type_ids=planes[:, 1], attention_mask=planes[:, 2])
    with torch.no_grad():
        half = getattr(transformers, kind).from_pretrained(folder, dtype=torch.bfloat16).eval()
        half = half(**given)
    model = model.double()
    out = model(**given)
    with torch.no_grad():
        plain = model(input_ids=planes[:, 0])
    expected = {"input": planes}
    if kind == "BertModel":
        expected |= {"output": out.pooler_output, "plain": plain.pooler_output,
                     "half": half.pooler_output, "features": out.last_hidden_state}
    else:
        labels = labels_of(model, planes)
        out = model(**given, labels=labels)
        expected |= {"output": out.logits, "plain": plain.logits, "half": half.logits,
                     "labels": labels, "loss": out.loss}
        out.loss.backward()
        for name, p in model.named_parameters():
            expected["gradient." + name] = p.grad.float()
        optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = model(**given, labels=labels).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        expected["losses"] = torch.stack(losses)
    save_file({name: x.detach().clone() for name, x in expected.items()},
              folder / "expected.safetensors")


def drawn(seed):
    """A class and a configuration, from the seed alone."""
    r = random.Random(seed)
    kind = [case[0] for case in CASES.values()][seed % len(CASES)]
    heads = r.choice([1, 2, 3, 4])
    labels = r.randint(2, 7)
    options = dict(
        vocab_size=r.randint(20, 90), hidden_size=heads * r.choice([3, 4, 8, 16]),
        intermediate_size=r.randint(5, 70), num_hidden_layers=r.randint(1, 4),
        num_attention_heads=heads, max_position_embeddings=r.randint(12, 40),
        type_vocab_size=r.randint(1, 3), hidden_act=r.choice(ACTIVATIONS),
        layer_norm_eps=r.choice([1e-12, 1e-6, 1e-5]), pad_token_id=r.choice([0, 0, 5, None]),
        hidden_dropout_prob=r.choice([0, 0.1, 0.3]),
        attention_probs_dropout_prob=r.choice([0, 0.1]),
        classifier_dropout=r.choice([None, 0.2]),
        id2label={i: f"L{i}" for i in range(labels)})
    return kind, BertConfig(**options), r.randint(1, 5), r.randint(3, 12)


def check(root):
    """Prints how far outputs of booster's folders are from booster's own, in double."""
    for folder in sorted(root.iterdir()):
        kind = json.loads((folder / "config.json").read_text())["architectures"][0]
        model, info = getattr(transformers, kind).from_pretrained(
            folder, output_loading_info=True, attn_implementation="eager")
        assert not any(info.values()), info
        ours = load_file(folder / "ours.safetensors")
        x = ours["input"]
        with torch.no_grad():
            out = model.double().eval()(input_ids=x[:, 0], token_type_ids=x[:, 1],
                                        attention_mask=x[:, 2])
        out = out.pooler_output if kind == "BertModel" else out.logits
        far = (out - ours["output"]).norm() / out.norm()
        print(f"{folder.name:<36} {kind:<30} {far:.1e}")
        assert far < 5e-6


parser = argparse.ArgumentParser()
parser.add_argument("--drawn", type=int, default=0)
parser.add_argument("--out", type=pathlib.Path, default=HERE / "bert")
parser.add_argument("--check", type=pathlib.Path)
arguments = parser.parse_args()
if arguments.check:
    check(arguments.check)
elif arguments.drawn:
    for seed in range(arguments.drawn):
        torch.manual_seed(seed)
        kind, config, n, tokens = drawn(seed)
        make(arguments.out / f"{seed:02}-{kind}", kind, config, n, tokens,
             shard="8KB" if seed % 2 else "50GB")
else:
    for name, (kind, options) in CASES.items():
        torch.manual_seed(0)
        make(arguments.out / name, kind, BertConfig(**{**SIZES, **options}))
    torch.manual_seed(0)
    make(arguments.out / "texts", "BertForSequenceClassification",
         BertConfig(**{**SIZES, "vocab_size": 300, "max_position_embeddings": 64}),
         planes=input_of_texts())
