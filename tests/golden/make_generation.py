"""Golden texts and distributions of generation by Hugging Face. Writes tests/golden/decoders/generation.json.

    python tests/golden/make_generation.py

Versions that made the committed file: PyTorch 2.15.0, transformers 5.24.0 (CPU).

"texts": greedy continuations of drawn prompts by the models of make_decoders.py, in double, some with a
repetition penalty, some longer than max_position_embeddings or than the window. "distributions": drawn scores
and texts, options, and the probabilities after the processors that generate() would apply, in its order.
"""
import json
import pathlib
import random

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

ROOT = pathlib.Path(__file__).parent / "decoders"
MODELS = ["llama", "llama_tied", "llama_linear", "llama_dynamic", "llama_yarn", "mistral", "qwen2", "qwen3"]


def texts():
    random.seed(1)
    cases = []
    for name in MODELS:
        model = AutoModelForCausalLM.from_pretrained(ROOT / name, attn_implementation="eager").double()
        for penalty in (1.0, 1.4):
            for length in (1, 3, 9):
                prompt = [random.randrange(40) for _ in range(length)]
                ids = torch.tensor([prompt])
                with torch.no_grad():
                    tokens = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False,
                                            repetition_penalty=penalty, eos_token_id=None, pad_token_id=0)
                cases.append({"model": name, "prompt": prompt, "repetition_penalty": penalty,
                              "tokens": tokens[0, length:].tolist()})
    return cases


def distributions():
    """Scores are multiples of 1/4, so that many are equal."""
    random.seed(2)
    model = AutoModelForCausalLM.from_pretrained(ROOT / "llama")
    cases = []
    for number in range(240):
        count = random.choice([1, 2, 5, 12])
        scores = [random.randrange(-8, 9) / 4 for _ in range(count)]
        text = [random.randrange(count) for _ in range(random.randrange(1, 5))]
        options = {"repetition_penalty": random.choice([1.0, 1.0, 1.5, 0.7]), "temperature": random.choice([1.0, 0.5, 2.0]),
                   "top_k": random.choice([0, 0, 1, 2, 3, 50]), "top_p": random.choice([1.0, 1.0, 0.9, 0.5, 0.05])}
        config = GenerationConfig(do_sample=True, **options)
        config = model._prepare_generation_config(config)[0]
        processors = model._get_logits_processor(config, input_ids_seq_length=len(text), device="cpu", model_kwargs={},
                                                 encoder_input_ids=None, prefix_allowed_tokens_fn=None, logits_processor=[])
        processed = processors(torch.tensor([text]), torch.tensor([scores]))
        cases.append({"scores": scores, "text": text, **options, "probabilities": processed.softmax(-1)[0].tolist()})
    return cases


cases = {"texts": texts(), "distributions": distributions()}
lines = [f'"{part}": [\n' + ",\n".join(json.dumps(case) for case in cases[part]) + "]" for part in cases]
(ROOT / "generation.json").write_text("{" + ",\n".join(lines) + "}\n")
