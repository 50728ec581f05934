"""Golden numbers of small llama, mistral, qwen2 and qwen3 from Hugging Face. Writes
tests/golden/decoders/.

    python tests/golden/make_decoders.py

Versions that made the committed files: PyTorch 2.15.0, transformers 5.24.0 (CPU).

NAME/model.safetensors and NAME/config.json are what save_pretrained writes. NAME/expected.safetensors
holds, computed in double: "ids", "logits", "loss"; for the first of each family also "gradient.NAME"
(stored in f32) and the "losses" of ten steps of AdamW; and greedily generated "tokens".
"""
import pathlib

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
# name: (model_type, options, whether steps are kept)
CASES = {
    "llama": ("llama", {}, True),
    "llama_tied": ("llama", dict(tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
                                 rope_scaling=LLAMA3, head_dim=8), False),
    "llama_linear": ("llama", dict(rope_scaling=dict(rope_type="linear", factor=2.5),
                                   num_key_value_heads=4), False),
    "llama_dynamic": ("llama", dict(rope_scaling=dict(rope_type="dynamic", factor=2.0),
                                    max_position_embeddings=8), False),
    "llama_yarn": ("llama", dict(rope_scaling=YARN, rope_theta=5000.0), False),
    "mistral": ("mistral", dict(sliding_window=5, num_key_value_heads=1), True),
    "qwen2": ("qwen2", dict(use_sliding_window=True, sliding_window=4, max_window_layers=1), True),
    "qwen3": ("qwen3", dict(head_dim=6, attention_bias=True, tie_word_embeddings=True), True),
}
STEPS = 10
ADAMW = dict(lr=1e-3, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1)


def make(folder, model_type, options, steps):
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **{**SIZES, **options})
    config.attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():  # scales and shifts that matter
        for name, p in model.named_parameters():
            if p.ndim == 1:
                p.add_(torch.randn_like(p) * 0.2)
            else:
                p.mul_(5)
    model.save_pretrained(folder)
    model = model.double()
    ids = torch.randint(0, 40, (2, 14))
    out = model(input_ids=ids, labels=ids)
    expected = {"ids": ids, "logits": out.logits.detach().clone(), "loss": out.loss.detach()}
    with torch.no_grad():
        expected["tokens"] = model.generate(ids[:1, :4], max_new_tokens=12, do_sample=False,
                                            eos_token_id=None, pad_token_id=0)
    if steps:
        model.zero_grad()
        out.loss.backward()
        for name, p in model.named_parameters():
            expected["gradient." + name] = p.grad.float()
        optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        expected["losses"] = torch.stack(losses)
    save_file(expected, folder / "expected.safetensors")
    (folder / "generation_config.json").unlink()


root = pathlib.Path(__file__).parent / "decoders"
for name, case in CASES.items():
    make(root / name, *case)
