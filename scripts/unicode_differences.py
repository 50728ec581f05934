#!/usr/bin/env python3
"""Writes core/text/unicode/unicode_differences.def: the characters whose class differs between
Unicode and the tables that the Python package `tokenizers` uses (some of Unicode 8, some of
Unicode 16).

    pip install tokenizers unicodedata2
    scripts/unicode_differences.py > core/text/unicode/unicode_differences.def

A row is TABLE(name, ranges). Names: what is missing from, or added to, which class of tokenizers.
"""
import unicodedata  # Python's own: Unicode 14 in Python 3.11, as PCRE2 10.40 to 10.42

import unicodedata2 as newest
from tokenizers import Regex, normalizers, pre_tokenizers

characters = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]


def ranges(codes):
    result = []
    for code in sorted(codes):
        if result and result[-1][1] == code - 1:
            result[-1][1] = code
        else:
            result.append([code, code])
    return result


def removed_by(normalizer):
    return {c for c in characters if normalizer.normalize_str("a" + chr(c) + "b") == "ab"}


def split_by(pre_tokenizer, pieces):
    return {c for c in characters
            if len(pre_tokenizer.pre_tokenize_str("\x01" + chr(c) + "\x01")) == pieces}


def of(database, *categories):
    return {c for c in characters if database.category(chr(c)).startswith(categories)}


def table(name, codes):
    items = [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(codes)]
    lines, line = [], "     "
    for i, item in enumerate(items):
        item += "," if i + 1 < len(items) else ")"
        if len(line) + 1 + len(item) > 100:
            lines.append(line)
            line = "     "
        line += " " + item
    print(f"TABLE({name},\n" + "\n".join(lines + [line]))


def bert(**steps):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return removed_by(normalizers.BertNormalizer(**{**off, **steps}))


def matched_by(expression):
    return split_by(pre_tokenizers.Split(Regex(expression), "removed"), 2)


white = {9, 10, 13}
other = bert(clean_text=True) | white
nonspacing = bert(strip_accents=True)
mark = removed_by(normalizers.StripAccents())
punctuation = split_by(pre_tokenizers.Punctuation(), 3)
ascii_punctuation = {ord(c) for c in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"}
# The replacement character and NUL go by another rule of BERT's.
print("// Written by scripts/unicode_differences.py.")
table("not_other", of(newest, "Cc", "Cf", "Co") - other)
table("not_nonspacing", of(newest, "Mn") - nonspacing)
table("also_nonspacing", nonspacing - of(newest, "Mn"))
table("not_mark", of(newest, "M") - mark)
table("also_mark", mark - of(newest, "M"))
table("not_punctuation", of(newest, "P") - punctuation)
table("also_punctuation", punctuation - of(newest, "P") - ascii_punctuation)
table("also_letter", matched_by(r"\p{L}") - of(unicodedata, "L"))
table("also_number", matched_by(r"\p{N}") - of(unicodedata, "N"))
table("also_word", matched_by(r"\w") - of(unicodedata, "L", "M", "Nd", "Nl", "Pc"))
