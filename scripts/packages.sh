#!/usr/bin/env bash
# The Debian packages that booster is built from, in one place. Installs those that are missing;
# changes nothing and needs no privileges if all are present.
#   scripts/packages.sh [--all]
# --all: also the packages of optional parts.
set -euo pipefail

packages=(
  meson ninja-build g++ pkg-config
  libfmt-dev nlohmann-json3-dev libcli11-dev doctest-dev
  libdnnl-dev        # matrix products and convolutions
  libgloo-dev        # several ranks
  libjpeg-dev libpng-dev zlib1g-dev
  libpcre2-dev libutf8proc-dev  # tokenisers
  libssl-dev         # checksums of checkpoints, proofs of a shared secret
  iproute2           # tests: network namespaces as machines
)
[[ ${1-} != --all ]] || packages+=(
  libopenmpi-dev openmpi-bin  # ranks over MPI
  slurmctld slurmd slurm-client munge  # tests: ranks that srun starts
)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ $status == *"ok installed" ]] || missing+=("$package")
done
((${#missing[@]} > 0)) || exit 0

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || {
    echo "packages are missing: ${missing[*]}" >&2
    echo "neither root nor sudo; want you to run: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 "$@"
}
try_three_times() {
  local attempt
  for attempt in 1 2 3; do
    "$@" && return
    echo "attempt $attempt of 3 failed: $*" >&2
    sleep $((attempt * 3))
  done
  return 1
}

echo "installing ${missing[*]}"
try_three_times apt update
try_three_times apt install --yes --no-install-recommends "${missing[@]}" >/dev/null
