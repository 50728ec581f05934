#!/usr/bin/env bash
# Prints C++ that defines project_templates() (project_files.h): these files of the folder project,
# named without their ending .in. gitignore gets its dot.
# usage: embed.sh FILE...
set -euo pipefail
echo '#include "tools/new/project_files.h"'
echo
echo 'std::vector<booster::ProjectFile> booster::project_templates() {'
echo '  return {'
for file in "$@"; do
  name=${file##*/tools/new/project/}
  name=${name%.in}
  printf '{"%s", R"file(' "${name/#gitignore/.gitignore}"
  cat "$file"
  echo ')file"},'
done
echo '  };'
echo '}'
