#!/usr/bin/env bash
# Checks that find_package(booster) of the installed CMake package suffices to build and run a
# program, also after the installation has moved. Checks the versions that the package accepts.
# usage: cmake_package.sh SOURCE_FOLDER BUILD_FOLDER COMPILER [FLAGS...]
set -euo pipefail
tree=$1 build=$2
shift 2
command -v cmake >/dev/null || { echo "skipped: no cmake"; exit 77; }
compiler=("$@")
[[ ${compiler[0]} != *ccache ]] || compiler=("${compiler[@]:1}")

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
meson install -C "$build" --no-rebuild --quiet --destdir "$root/installed"
config=$(find "$root/installed" -name booster-config.cmake)
[[ -n $config ]] || { echo "no booster-config.cmake was installed"; exit 1; }
mv "$root/installed" "$root/moved"
package=$(dirname "${config/installed/moved}")

mkdir "$root/program"
cp "$tree/examples/mlp/mlp.cpp" "$root/program/program.cpp"
project() {
  cat >"$root/program/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.16)
project(program CXX)
find_package(booster $1 REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program booster::booster)
TEXT
}
configure() {
  rm -rf "$root/out"
  cmake -S "$root/program" -B "$root/out" -Dbooster_DIR="$package" \
    -DCMAKE_CXX_COMPILER="${compiler[0]}" -DCMAKE_CXX_FLAGS="${compiler[*]:1} -O1" >"$root/log" 2>&1
}
for version in 9.0 0.0.1 0.1.99; do
  project "$version"
  ! configure || { echo "version $version was found; want it refused"; exit 1; }
  grep -q "version" "$root/log" || { cat "$root/log"; exit 1; }
done
for version in "" 0.1 "0.1.0 EXACT"; do
  project "$version"
  configure || { cat "$root/log"; exit 1; }
done
cmake --build "$root/out" >"$root/log" 2>&1 || { cat "$root/log"; exit 1; }
text=$(OMP_NUM_THREADS=1 "$root/out/program" bf16)
echo "$text"
[[ $text =~ accuracy\ (9[0-9]|100)\. ]] || { echo "want an accuracy of at least 90 %"; exit 1; }
