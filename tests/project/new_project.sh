#!/usr/bin/env bash
# Checks that what `booster new` writes builds against the installed library, with CMake and with
# Meson, and that its test passes and its training runs.
# usage: new_project.sh BUILD_FOLDER COMPILER [FLAGS...]
set -euo pipefail
build=$1
shift
compiler=("$@")
[[ ${compiler[0]} != *ccache ]] || compiler=("${compiler[@]:1}")

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
export OMP_NUM_THREADS=1
meson install -C "$build" --no-rebuild --quiet --destdir "$root/installed"
prefix=$(dirname "$(dirname "$(find "$root/installed" -path '*/bin/booster')")")
package=$(dirname "$(find "$prefix" -name booster-config.cmake)")
library=$(dirname "$(find "$prefix" -name libbooster.so)")
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name booster.pc)")
export PKG_CONFIG_PATH
"$prefix/bin/booster" new "$root/my_net"
cd "$root/my_net"

# Runs a command; shows what it prints if it fails.
quietly() { "$@" >"$root/log" 2>&1 || { cat "$root/log"; exit 1; }; }

# try TRAIN: trains with the config of the project, then resumes.
try() {
  local text
  text=$(LD_LIBRARY_PATH=$library "$1" --config config.json --set train.output_dir="$root/out")
  [[ $text =~ accuracy\ (9[0-9]|100)\. ]] || { echo "$text"; echo "want 90 % or more"; exit 1; }
  rm -rf "$root/out"
}

tried=()
if command -v cmake >/dev/null; then
  quietly cmake -S . -B build-cmake -Dbooster_DIR="$package" -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_CXX_COMPILER="${compiler[0]}" -DCMAKE_CXX_FLAGS="${compiler[*]:1}"
  quietly cmake --build build-cmake
  quietly ctest --test-dir build-cmake --output-on-failure
  try build-cmake/train
  tried+=(CMake)
fi
quietly env CXX="${compiler[*]}" meson setup build-meson --buildtype debug
quietly ninja -C build-meson
LD_LIBRARY_PATH=$library quietly meson test -C build-meson --print-errorlogs
try build-meson/train
tried+=(Meson)
echo "built and tested with ${tried[*]}"
