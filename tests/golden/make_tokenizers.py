"""Small tokenisers of Hugging Face's tokenizers, and what it makes of drawn texts. Writes
tests/golden/text/.

    python tests/golden/make_tokenizers.py

Versions that made the committed files: tokenizers 0.23.3.

NAME.json is the tokeniser, cases.json the texts, NAME.expected.json per text [tokens, decoded text,
decoded with special tokens], or for a pair [tokens, segments].
"""
import json
import pathlib
import random

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

root = pathlib.Path(__file__).parents[2]
folder = root / "tests/golden/text"
CORPUS = [str(root / "LICENSE"), str(root / "core/tensor/shape.h"), str(root / "README.md")]
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|\p{N}{1,3}" + REST
QWEN = CONTRACTIONS + r"|\p{N}" + REST
BYTES = pre_tokenizers.ByteLevel.alphabet()


def byte_pairs(tokenizer, special, size=420, **options):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                  **options)
    tokenizer.train(CORPUS, trainer)
    return tokenizer


def gpt2():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return byte_pairs(t, ["<|endoftext|>"], initial_alphabet=BYTES)


def split_bytes(pattern, **model):
    t = Tokenizer(models.BPE(**model))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    return t


def llama3():
    t = byte_pairs(split_bytes(LLAMA3, ignore_merges=True), ["<|begin_of_text|>", "<|eot_id|>"],
                   initial_alphabet=BYTES)
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
            special_tokens=[("<|begin_of_text|>", 0)])])
    return t


def qwen():
    t = split_bytes(QWEN)
    t.normalizer = normalizers.NFC()
    byte_pairs(t, [], initial_alphabet=BYTES)
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken("<think>", normalized=False),
                  AddedToken("</think>", lstrip=True, rstrip=True, normalized=True),
                  AddedToken("word", single_word=True)])
    return t


def llama2():
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    byte_pairs(trained, special, size=480, limit_alphabet=60)
    description = json.loads(trained.to_str())
    description["model"].update(fuse_unk=True, byte_fallback=True)
    description["added_tokens"] = description["added_tokens"][:3]
    description["pre_tokenizer"] = None
    t = Tokenizer.from_str(json.dumps(description))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                   decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", 1)])
    return t


def mistral():  # as llama2, with the stages that later files have
    description = json.loads(llama2().to_str())
    description["normalizer"] = None
    description["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁",
                                    "prepend_scheme": "first", "split": False}
    return Tokenizer.from_str(json.dumps(description))


def bert(lowercase=True):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train(CORPUS, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special,
                                              show_progress=False))
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def many_stages():  # what the others do not use
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([
        normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(),
        normalizers.Replace(Regex(r"\s+"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation()])
    t.decoder = decoders.BPEDecoder()
    byte_pairs(t, ["<unk>", "<s>", "</s>"], size=300, end_of_word_suffix="</w>")
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    return t


def texts(count):
    draw = random.Random(0)
    corpus = "".join(open(file).read() for file in CORPUS)
    special = ["<|endoftext|>", "<|im_start|>", "<think>", " </think> ", "word", "words", "<s>",
               "<unk>", "[CLS]", "[MASK]", "<|begin_of_text|>", "<0x41>", "▁", "Ġ", "</w>"]
    spaces = [" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u0085", "\u2028", "\u180e",
              "\u200b", "\x1c", "\ufeff"]
    words = ["'s", "'LL", "'ſ", "don't", " do not", "é", "e\u0301", "İ", "ß", "ﬁ", "한국", "日本",
             "हिन्दी", "🏳️\u200d🌈", "①", "½", "٣", "\u07fd\u0321", "\u1ac8", "\U00031350"]

    def character():
        limit = draw.choice([0x80, 0x250, 0x3000, 0xD800, 0x110000])
        code = draw.randrange(1, limit)
        return chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd"

    def piece():
        kind = draw.randrange(7)
        start = draw.randrange(len(corpus))
        return [lambda: "".join(character() for _ in range(draw.randrange(1, 8))),
                lambda: draw.choice(special), lambda: draw.choice(spaces) * draw.randrange(1, 4),
                lambda: corpus[start:start + draw.randrange(1, 50)], lambda: draw.choice(words),
                lambda: str(draw.randrange(10 ** draw.randrange(1, 12))),
                lambda: draw.choice("abXY.,!?-_#") * draw.randrange(1, 70)][kind]()

    def text():
        return "".join(piece() for _ in range(draw.randrange(0, 8)))

    return [[text(), text()] if i % 10 == 9 else text() for i in range(count)]


def expected(tokenizer, case):
    if isinstance(case, list):
        encoded = tokenizer.encode(*case)
        return [encoded.ids, encoded.type_ids]
    ids = tokenizer.encode(case).ids
    return [ids, tokenizer.decode(ids), tokenizer.decode(ids, skip_special_tokens=False)]


def write(name, value):
    (folder / name).write_text(json.dumps(value, separators=(",", ":")) + "\n")


folder.mkdir(exist_ok=True)
cases = texts(60)
write("cases.json", cases)
for make in (gpt2, llama3, qwen, llama2, mistral, bert, many_stages):
    tokenizer = make()
    write(f"{make.__name__}.json", json.loads(tokenizer.to_str()))
    write(f"{make.__name__}.expected.json", [expected(tokenizer, case) for case in cases])
