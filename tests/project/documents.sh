#!/usr/bin/env bash
# Checks the documents: links work, named files exist, and the README's program is the built and
# tested example.
# usage: documents.sh ROOT
set -euo pipefail
cd "$1"

failures=0
complain() { echo "$1"; failures=$((failures + 1)); }

layers="platform|kernels|core|parallel|mixed_precision|plugins|booster|tools|examples|benchmarks"
layers+="|tests"
layers+="|docs|scripts"
documents=(README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs/*.md docs/*/*.md)
for document in "${documents[@]}"; do
  folder=$(dirname "$document")
  while read -r link; do
    [[ $link == http* || $link == '#'* || -e $folder/${link%%#*} ]] ||
      complain "$document: link to $link, which does not exist"
  done < <(sed '/^ *```/,/^ *```/d' "$document" | grep -oP '\]\(\K[^)]+' || true)
  # `layer/file.h`, `scripts/test.sh`: names in backticks that look like files of this tree
  while read -r name; do
    [[ -e $name ]] || complain "$document: names $name, which does not exist"
  done < <(grep -oP "\`\K($layers)/[A-Za-z0-9_./-]+(?=\`)" "$document" || true)
done

# The documents send users to installed headers only.
public=$(scripts/public_headers.sh "$PWD")
for document in README.md docs/{add-a-strategy,porting,recipes,report}.md \
  docs/{start,guides}/*.md; do
  while read -r header; do
    grep -qxF "$header" <<<"$public" || complain "$document: names $header, which booster.h lacks"
  done < <(grep -oP "\`\K($layers)/[a-z0-9_/]+\.h(?=\`)" "$document" || true)
done

# The functions that can be differentiated twice: the error, the header and the document agree.
twice_differentiable() {
  tr -d '"`/' <"$1" | tr -s '\n ' ' ' |
    grep -oiP 'arithmetic, shape functions, .*?(?= and the losses)' | head -1 | cut -c2-
}
list=$(twice_differentiable core/autograd/backward.h)
[[ -n $list ]] || complain "core/autograd/backward.h: no list of functions with second derivatives"
for file in core/autograd/pass.h docs/numerics.md; do
  [[ $(twice_differentiable $file) == "$list" ]] ||
    complain "$file: other functions with second derivatives than core/autograd/backward.h"
done

# The index lists every document.
for document in docs/*.md docs/*/*.md; do
  [[ $document == docs/README.md ]] || grep -qF "](${document#docs/})" docs/README.md ||
    complain "docs/README.md: does not list $document"
done

# Programs that the README and the quick starts call are built by scripts/demo.sh.
called=$(grep -ohP 'build/examples/\K[a-z0-9_]+(?![a-z0-9_.])' README.md docs/start/*.md | sort -u)
for program in $called; do
  grep -qE "executable\('$program'" examples/meson.build ||
    complain "documents: call build/examples/$program, which examples/meson.build does not build"
done
grep -q 'ninja -C build tools/booster all_examples' scripts/demo.sh ||
  complain "scripts/demo.sh: does not build all examples"

program=$(sed -n '/^```cpp$/,/^```$/p' README.md | sed '1d;/^```$/,$d')
[[ $program == "$(cat examples/mlp/mlp.cpp)" ]] ||
  complain "README.md: its first C++ block differs from examples/mlp/mlp.cpp"
plugin=$(sed -n '/^```cpp$/,/^```$/p' docs/add-a-plugin.md | sed '1d;/^```$/,$d')
[[ $plugin == "$(cat examples/own_plugin/local_sgd.h)" ]] ||
  complain "docs/add-a-plugin.md: its first C++ block differs from examples/own_plugin/local_sgd.h"
tutorial=$(sed -n '/^```cpp$/,/^```$/p' docs/porting.md | sed '1d;/^```$/,$d')
[[ $tutorial == "$(cat examples/amp_tutorial/amp_tutorial.cpp)" ]] || complain \
  "docs/porting.md: its first C++ block differs from examples/amp_tutorial/amp_tutorial.cpp"
classifier=$(sed -n '/^## Encoders$/,/^## /p' docs/language-models.md |
  sed -n '/^```cpp$/,/^```$/p' | sed '1d;/^```$/,$d')
[[ $classifier == "$(cat examples/bert_classifier/bert_classifier.cpp)" ]] || complain \
  "docs/language-models.md: its block in Encoders differs from examples/bert_classifier"
echo "${#documents[@]} documents"
((failures == 0))
