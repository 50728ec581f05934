"""A small Llama with the tokeniser tests/golden/text/gpt2.json, its perplexity of a text, and its
answers to questions. Writes tests/golden/language_model/.

    python tests/golden/make_language_model.py

Versions that made the committed files: torch 2.15.0, transformers 5.24.0, tokenizers 0.23.3.
"""
import json
import math
import pathlib
import random

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

here = pathlib.Path(__file__).parent
folder = here / "language_model"
tokenizer = Tokenizer.from_file(str(here / "text/gpt2.json"))
LENGTH = 32
WORDS = ["the", "library", "of", "a", "licence", "work", "shall", "not", "is", "Contribution", "you"]


def model():
    torch.manual_seed(3)
    config = LlamaConfig(vocab_size=420, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                         tie_word_embeddings=True, attn_implementation="eager")
    result = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in result.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
    return result


def losses(net, ids):
    """The negative logarithm of the probability of each token but the first."""
    logits = net(torch.tensor([ids])).logits[0, :-1].double()
    return -torch.log_softmax(logits, -1)[range(len(ids) - 1), ids[1:]]


def perplexity(net, text):
    ids = tokenizer.encode(text).ids
    windows = (len(ids) - 1) // LENGTH
    all_losses = [losses(net, ids[i * LENGTH:i * LENGTH + LENGTH + 1]) for i in range(windows)]
    return torch.cat(all_losses).mean().item(), windows * LENGTH


def questions():
    random_ = random.Random(4)
    words = lambda low, high: " ".join(random_.choice(WORDS) for _ in range(random_.randint(low, high)))
    return [{"context": words(1, 12), "choices": [" " + words(1, 5) for _ in range(random_.randint(2, 5))],
             "answer": 0} for _ in range(40)]


def answer(net, question, per_byte):
    context = tokenizer.encode(question["context"]).ids
    sums = []
    for choice in question["choices"]:
        ids = tokenizer.encode(question["context"] + choice).ids
        assert ids[:len(context)] == context
        total = losses(net, ids)[len(context) - 1:].sum().item()
        sums.append(total / (len(choice.encode()) if per_byte else 1))
    return min(range(len(sums)), key=sums.__getitem__)


@torch.no_grad()
def main():
    folder.mkdir(exist_ok=True)
    net = model()
    net.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    text = (here.parents[1] / "LICENSE").read_text()[:4000]
    (folder / "text.txt").write_text(text)
    loss, tokens = perplexity(net, text)
    asked = questions()
    for i, question in enumerate(asked):  # the answers of both measures are right now and then
        likeliest = answer(net, question, i % 3 == 1)
        question["answer"] = likeliest if i % 3 < 2 else (likeliest + 1) % len(question["choices"])
    (folder / "choices.jsonl").write_text("".join(json.dumps(q) + "\n" for q in asked))
    right = [sum(answer(net, q, per_byte) == q["answer"] for q in asked) for per_byte in (False, True)]
    expected = {"loss": loss, "perplexity": math.exp(loss), "tokens": tokens, "questions": len(asked),
                "right": right[0], "right_per_byte": right[1]}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    print(expected, torch.__version__)


main()
