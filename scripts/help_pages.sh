#!/usr/bin/env bash
# Writes a program's man page, or its completion in bash, from the program's own --help, so that
# they agree.
#   scripts/help_pages.sh man|bash PROGRAM > PAGE
set -euo pipefail
kind=${1-} program=${2-}
[[ ($kind == man || $kind == bash) && -x $program ]] || {
  echo "help_pages: wrong arguments; got '$*', want scripts/help_pages.sh man|bash PROGRAM" >&2
  exit 2
}
name=$(basename "$program") here=$(dirname "$0")

help_of() { "$program" "$@" --help; }

# Prints the first words of the rows below "Subcommands:".
subcommands() {
  awk '/^Subcommands:$/ { inside = 1; next } /^$/ { inside = 0 } inside && /^  [^ ]/ { print $1 }'
}
# Prints the names of options, also of those without a heading.
options() { sed -nE 's/^  (-[^ ]+).*/\1/p' | tr ',' '\n' | sort; }

# Prints every command on its own line: "run", ..., "config", "config check". The argument is their
# parent.
commands_of() {
  local command words
  read -ra words <<<"$1"
  for command in $(help_of "${words[@]}" | subcommands); do
    echo "${1:+$1 }$command"
    commands_of "${1:+$1 }$command"
  done
}
mapfile -t commands < <(commands_of "")
((${#commands[@]} > 0)) || { echo "help_pages: $program --help lists no commands" >&2; exit 1; }

man_page() {
  local command words
  echo ".TH ${name^^} 1 \"\" \"$("$program" --version)\""
  echo ".SH NAME"
  echo "$name \\- $(help_of | sed -n '1{s/\.$//; s/^./\l&/; p}')"
  echo ".SH DESCRIPTION"
  help_of | awk -f "$here/help_to_roff.awk"
  echo ".SH COMMANDS"
  for command in "${commands[@]}"; do
    read -ra words <<<"$command"
    echo ".SS $command"
    help_of "${words[@]}" | awk -f "$here/help_to_roff.awk"
  done
}

completion() {
  local command words text
  echo "# Completion of $name in bash, made from its --help."
  echo "_$name() {"
  echo "  local -A words"
  for command in "" "${commands[@]}"; do
    read -ra words <<<"$command"
    text=$(help_of "${words[@]}")
    printf '  words["%s"]="%s"\n' "$name${command:+ $command}" \
      "$( (subcommands <<<"$text"; options <<<"$text") | paste -sd ' ')"
  done
  cat <<TEXT
  local at=$name word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ -z \${words["\$at \$word"]-} ]] || at+=" \$word"
  done
  mapfile -t COMPREPLY < <(compgen -W "\${words["\$at"]}" -- "\${COMP_WORDS[COMP_CWORD]}")
}
complete -o default -F _$name $name
TEXT
}

case $kind in
  man) man_page ;;
  bash) completion ;;
esac
