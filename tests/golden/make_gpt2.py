"""Golden numbers of a small GPT-2 from Hugging Face. Writes tests/golden/gpt2/.

    python tests/golden/make_gpt2.py
    python tests/golden/make_gpt2.py FOLDER      the 124 M parameters of "gpt2", drawn anew, for
    GPT2_GOLDEN=FOLDER build/tests/checkpoint_test -tc='*ten steps*'

Versions that made the committed files: PyTorch 2.15.0, transformers 5.23.0 (CPU).

model.safetensors and config.json are what save_pretrained writes. expected.safetensors holds the
rest, computed in double, so that a comparison measures the error of the code under test alone.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

STEPS = 10
# eps: the gradient of the keys' bias is zero but for rounding, which Adam would make a whole step.
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1)


def loss_of(model, ids, autocast=False):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        out = model(input_ids=ids, labels=ids)
    model.zero_grad()
    out.loss.backward()
    return out


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def make(folder, config, batch, tokens):
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():  # scales and shifts that matter
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    ids = torch.randint(config.vocab_size, (STEPS, batch, tokens))
    expected = {"ids": ids}

    low = gradients_of_bf16(model, ids[0])
    model = model.double()
    out = loss_of(model, ids[0])
    expected["logits"], expected["loss"] = out.logits, out.loss.reshape(1)
    for name, g in gradients(model).items():
        expected["grad." + name] = g
        # what 16 bits cost
        expected["bf16_error." + name] = ((low[name] - g).norm() / g.norm()).reshape(1)

    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    for step in range(STEPS):
        loss_of(model, ids[step])
        optimizer.step()
    for name, p in model.named_parameters():
        expected["after." + name] = p
    save_file({name: (t if name == "ids" else t.detach().float()).contiguous()
               for name, t in expected.items()}, folder / "expected.safetensors")


def gradients_of_bf16(model, ids):
    loss_of(model, ids, autocast=True)
    return gradients(model)


if __name__ == "__main__":
    no_dropout = dict(embd_pdrop=0, attn_pdrop=0, resid_pdrop=0)
    if len(sys.argv) > 1:
        make(pathlib.Path(sys.argv[1]), GPT2Config(**no_dropout), batch=2, tokens=64)
    else:
        small = GPT2Config(vocab_size=97, n_positions=16, n_embd=24, n_layer=2, n_head=4,
                           initializer_range=0.2, bos_token_id=0, eos_token_id=0, **no_dropout)
        make(pathlib.Path(__file__).parent / "gpt2", small, batch=3, tokens=16)
