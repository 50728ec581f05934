#!/usr/bin/env bash
# Runs the README's two commands in a fresh root of a Debian release, on a copy of this repository's
# HEAD. Needs root, debootstrap and the packages' mirror; leaves nothing on the machine.
#   scripts/try_distribution.sh bookworm|trixie [COMMAND ...]
# COMMAND: instead of scripts/demo.sh and scripts/test.sh, each a word: 'scripts/demo.sh bf16'
# Copies this machine's settings for the mirror (apt, certificates, name servers, proxies) into the
# root. TMPDIR is the root's folder; it takes about 4 GiB.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  echo "try_distribution: $1; want scripts/try_distribution.sh bookworm|trixie [COMMAND ...]" >&2
  exit 2
}
case ${1-} in
  bookworm | trixie) release=$1 ;;
  *) usage "unknown release; got '${1-}'" ;;
esac
((EUID == 0)) || usage "it needs root; got user $EUID"
command -v debootstrap >/dev/null || usage "no debootstrap here (apt install debootstrap)"

# The mounts below end with this process, however it ends.
if [[ ${TRY_DISTRIBUTION-} != inside ]]; then
  TRY_DISTRIBUTION=inside exec unshare --mount --propagation private "$0" "$@"
fi
shift
(($# > 0)) || set -- scripts/demo.sh scripts/test.sh

root=$(mktemp -d)
chmod 755 "$root"  # packages start programs as other users there
# --one-file-system: never removes mounted file systems.
trap 'umount -l "$root" 2>/dev/null; rm -rf --one-file-system "$root" 2>/dev/null || true' EXIT

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 2>/dev/null |
  grep -v security | head -1 || true)
debootstrap --variant=minbase "$release" "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 || {
  tail -20 "$root.log" >&2
  echo "try_distribution: debootstrap failed; its log is $root.log" >&2
  exit 1
}
rm -f "$root.log"

apt-config dump Acquire >"$root/etc/apt/apt.conf.d/99machine"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
if [[ -d /usr/local/share/ca-certificates ]]; then
  cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
fi
if [[ -e /etc/ssl/certs/ca-certificates.crt ]]; then
  mkdir -p "$root/etc/ssl/certs"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
fi
git clone --quiet --no-hardlinks --depth 1 "file://$PWD" "$root/booster"

mount --bind "$root" "$root"  # `ip netns` needs a root that is a mount
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
environment=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [[ -z ${!name-} ]] || environment+=("$name=${!name}")
done
in_root() {
  env -i "${environment[@]}" "$(command -v chroot)" "$root" /bin/bash -c "cd /booster && $1"
}

echo "$(in_root '. /etc/os-release && echo "$PRETTY_NAME"'), commit $(git rev-parse --short HEAD)"
results=()
for command in "$@"; do
  echo "== $command"
  start=$SECONDS result=passed
  in_root "$command" || result=failed
  results+=("$result after $((SECONDS - start)) s: $command")
done
printf '%s\n' "${results[@]}"
[[ ${results[*]} != *"failed after"* ]]
