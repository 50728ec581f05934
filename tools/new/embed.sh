#!/usr/bin/env bash
# Prints C++ that defines project_templates() (project_files.h): the files of FOLDER, named without
# their ending .in; gitignore gets its dot.
# usage: embed.sh FOLDER FILE...
set -euo pipefail
folder=$1
shift
echo '#include "tools/new/project_files.h"'
echo
echo 'std::vector<booster::ProjectFile> booster::project_templates() {'
echo '  return {'
for file in "$@"; do
  name=${file#"$folder"/}
  name=${name%.in}
  printf '{"%s", R"file(' "${name/#gitignore/.gitignore}"
  cat "$file"
  echo ')file"},'
done
echo '  };'
echo '}'
