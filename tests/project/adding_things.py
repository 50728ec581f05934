#!/usr/bin/env python3
"""What docs/architecture.md says under "Adding things" is what is there: a built-in strategy, plugin,
optimizer, scheduler or model is mentioned in the files that its row names and in no other.

Looked for are its type, its header and its name in quotes, in all rooms of the library, comments left
out; a name that is a dtype's too ("bf16") is not. One strategy may recommend another (`.instead`).
usage: adding_things.py ROOT
"""
import fnmatch
import os
import re
import sys

ROOMS = ['kernels', 'core', 'parallel', 'mixed_precision', 'plugins', 'booster']
DTYPES = {'fp32', 'fp16', 'bf16', 'fp8'}
# What a Booster does without a choice, and a name for another strategy: no types of their own.
NULL_OBJECTS = {'single', 'fp32', 'auto'}


def read_tree(root):
    texts = {}
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(root, room)):
            for name in names:
                if re.search(r'\.(h|cpp|def|cu)$|^meson\.build$', name):
                    path = os.path.relpath(os.path.join(folder, name), root)
                    with open(os.path.join(root, path), encoding='utf-8') as file:
                        texts[path] = file.read()
    return texts


def without_comments(path, text):
    if path.endswith('meson.build'):
        return re.sub(r'#.*', '', text)
    return '\n'.join(line for line in re.sub(r'//.*', '', text).split('\n')
                     if '.instead' not in line)


class Thing:
    """A built-in: its name in a config, its header, its types, and what betrays a mention of it."""

    def __init__(self, name, header, types, by_header=True, by_name=True):
        self.name, self.header = name, header
        self.stem = header.rsplit('/', 1)[1][:-2]
        self.types = re.compile('|'.join(rf'\b{one}\b' for one in types) if types else '$^')
        self.include = f'include "{header}"' if by_header else None
        self.quoted = f'"{name}"' if by_name and name not in DTYPES else None

    def is_mentioned(self, path, text):
        if path.endswith('meson.build'):
            room = os.path.dirname(path)
            if not self.header.startswith(room) or not self.include:
                return f"'{self.name}'" in text
            source = os.path.relpath(self.header[:-2] + '.cpp', room)
            return f"'{source}'" in text
        if path.endswith('.def'):
            return f'({self.name})' in text
        if path.rsplit('.', 1)[0] == self.header[:-2] and self.include:
            return True
        if self.include and self.include in text or self.quoted and self.quoted in text:
            return True
        return bool(self.types.search(re.sub(r'"[^"\n]*"', '', text)))


def strategies_and_plugins(texts, kind, base, room):
    names = re.findall(rf'^{kind}\((\w+)\)', texts['booster/config/builtins.def'], re.M)
    things = []
    for name in names:
        if name in NULL_OBJECTS:
            continue
        headers = [path for path, text in texts.items()
                   if path.startswith(room) and path.endswith('.h') and f'return "{name}"' in text]
        assert len(headers) == 1, f'{name}: no single header says its name: {headers}'
        types = re.findall(rf'class (\w+) : public {base}', texts[headers[0]])
        assert types, f'{headers[0]}: no class derived from {base}'
        things.append(Thing(name, headers[0], types))
    return things


def optimizers(texts):
    source = texts['booster/config/optimizers.cpp']
    things = []
    for made, name in re.findall(r'entry<(\w+)>\(\s*"(\w+)"', source):
        headers = [path for path, text in texts.items()
                   if path.endswith('.h') and f'class {made} : public Optimizer' in text]
        things.append(Thing(name, headers[0], [made, made + 'Options']))
    return things


def schedulers(texts):
    source = texts['booster/config/lr_schedulers.cpp']
    return [Thing(name, 'core/optim/lr_scheduler.h', [made], by_header=False, by_name=False)
            for made, name in re.findall(r'entry<(\w+LR)[^>]*>\(\s*"(\w+)"', source)]


def models(texts):
    return [Thing(path.rsplit('/', 1)[1][:-2], path, [], by_name=False) for path in texts
            if path.startswith('core/nn/models/') and path.endswith('.h')]


def patterns_of(document, row, thing):
    rows = [line for line in document.split('\n') if line.startswith(f'| {row} |')]
    assert len(rows) == 1, f'docs/architecture.md: want one row "{row}"; got {len(rows)}'
    found = re.findall(r'`([\w./<>*]+/[\w./<>*]+)`', rows[0])
    return [pattern.replace('<name>', thing.name).replace('<file>', thing.stem) for pattern in found]


def main(root):
    texts = read_tree(root)
    with open(os.path.join(root, 'docs/architecture.md'), encoding='utf-8') as file:
        document = file.read()
    plain = {path: without_comments(path, text) for path, text in texts.items()}
    kinds = [
        ('a precision strategy',
         strategies_and_plugins(texts, 'STRATEGY', 'Precision', 'mixed_precision/')),
        ('a plugin', strategies_and_plugins(texts, 'PLUGIN', 'Plugin', 'plugins/')),
        ('an optimizer', optimizers(texts)),
        ('a learning-rate scheduler', schedulers(texts)),
        ('a model', models(texts)),
    ]
    problems, count = [], 0
    for row, things in kinds:
        assert things, f'nothing was found for the row "{row}"; the search is broken'
        count += len(things)
        used = set()
        for thing in things:
            wanted = patterns_of(document, row, thing)
            for path, text in plain.items():
                if not thing.is_mentioned(path, text):
                    continue
                fits = [i for i, one in enumerate(wanted) if fnmatch.fnmatch(path, one)]
                used.update(fits)
                if not fits:
                    problems.append(f'{path} mentions {thing.name}; the row "{row}" does not say so')
        for i, pattern in enumerate(patterns_of(document, row, things[0])):
            if i not in used:
                problems.append(f'the row "{row}" names {pattern}, which mentions none of them')
    print('\n'.join(problems + [f'{count} built-ins, {len(problems)} problems']))
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
