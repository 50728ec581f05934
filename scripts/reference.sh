#!/usr/bin/env bash
# Writes the reference pages, docs/reference/*.md, from what the programs themselves print, so that
# both say the same. tests/project/reference.sh holds them current.
#   scripts/reference.sh BOOSTER VIT_CALTECH101 [FOLDER]
set -euo pipefail
booster=${1-} example=${2-}
[[ -x $booster && -x $example ]] || {
  echo "reference: got '$*', want scripts/reference.sh BOOSTER VIT_CALTECH101 [FOLDER]" >&2
  exit 2
}
folder=${3-$(dirname "$0")/../docs/reference}
mkdir -p "$folder"

# Turns "## TITLE" and rows of four columns into tables.
tables() {
  awk '
    function cell(text) { gsub(/\|/, "\\|", text); return text }
    /^[^ ]/ { gsub(/ "/, " `\""); gsub(/",/, "\"`,"); gsub(/"$/, "\"`")
              print "\n## " $0 "\n\n| key | default | values | meaning |\n|---|---|---|---|"; next }
    /^  [^ ]/ { n = split(substr($0, 3), part, /  +/)
                meaning = part[4]; for (i = 5; i <= n; i++) meaning = meaning " " part[i]
                printf "| `%s` | `%s` | %s | %s |\n",
                  part[1], cell(part[2]), cell(part[3]), cell(meaning) }'
}

config_page() {
  echo "# Keys of a config"
  echo
  echo "Made by \`scripts/reference.sh\` from \`vit_caltech101 --help\`. The sections \`data\`,"
  echo "\`train\` and \`inference\` are that example's own; all others hold for every program."
  "$example" --help | sed -n '/^What a config may hold:$/,$p' | tail -n +2 | grep -v '^$' | tables
}

subcommands() {
  awk '/^Subcommands:$/ { inside = 1; next } /^$/ { inside = 0 } inside && /^  [^ ]/ { print $1 }'
}

# Prints a command's help as a section, then those of its subcommands.
command_section() {  # WORDS OF THE COMMAND
  local name
  printf '\n## booster%s\n\n```text\n' "${*:+ $*}"
  "$booster" "$@" --help | sed 's/ *$//'
  printf '```\n'
  for name in $("$booster" "$@" --help | subcommands); do
    command_section "$@" "$name"
  done
}

commands_page() {
  echo "# Commands"
  echo
  echo "Made by \`scripts/reference.sh\` from \`booster --help\`."
  command_section
}

# Every plugin and strategy with its options.
choices_page() {
  local name
  echo "# Plugins and strategies"
  echo
  echo "Made by \`scripts/reference.sh\` from \`booster list\`."
  for name in $("$booster" list | awk '/^  [a-z]/ { print $1 }'); do
    printf '\n## %s\n\n```text\n' "$name"
    "$booster" list "$name" | sed 's/ *$//'
    printf '```\n'
  done
  printf '\n## Which combinations work\n\n```text\n'
  "$booster" matrix | sed 's/ *$//'
  printf '```\n'
}

config_page > "$folder/config.md"
commands_page > "$folder/commands.md"
choices_page > "$folder/choices.md"
