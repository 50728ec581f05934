#!/usr/bin/env bash
# Runs scripts/caltech101.sh on a set of three images. It must download the set, continue an
# incomplete download, use an existing file, and refuse a wrong checksum.
# usage: caltech101.sh ROOT
set -euo pipefail
script=$(realpath "$1")/scripts/caltech101.sh
for program in curl python3; do
  command -v "$program" >/dev/null || { echo "no $program here"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "$1"; [[ ! -e log ]] || cat log; exit 1; }

mkdir -p 101_ObjectCategories/{ant,BACKGROUND_Google} caltech-101
for image in ant/image_0001 ant/image_0002 BACKGROUND_Google/image_0001; do
  head -c 3000 /dev/urandom >"101_ObjectCategories/$image.jpg"
done
tar -czf caltech-101/101_ObjectCategories.tar.gz 101_ObjectCategories
python3 -m zipfile -c set.zip caltech-101
export CALTECH101_URL=file://$work/set.zip
CALTECH101_MD5=$(md5sum <set.zip | cut -d ' ' -f 1)
export CALTECH101_MD5
same() { diff -r 101_ObjectCategories "$1/101_ObjectCategories" >/dev/null; }

"$script" whole >log 2>&1 || fail "a download fails"
same whole || fail "a download has other files"
grep -q "3 images of 2 classes" log || fail "what was unpacked is not told"
[[ $(ls whole) == $'101_ObjectCategories\ncaltech-101.zip' ]] || fail "something is left behind"
"$script" whole | grep -q "is there" || fail "an unpacked set is not taken"

mkdir half
head -c 2000 set.zip >half/caltech-101.zip.part
"$script" half >log 2>&1 || fail "half a download is not gone on with"
same half || fail "half a download that was gone on with has other files"

mkdir there
cp set.zip there/caltech-101.zip
CALTECH101_URL=file:///nowhere "$script" there >log 2>&1 || fail "a file that is there is not used"
same there || fail "a file that is there has other files"
mkdir stopped
cp set.zip stopped/caltech-101.zip.part
CALTECH101_URL=file:///nowhere "$script" stopped >log 2>&1 || fail "a whole .part is not used"

mkdir wrong
echo damaged >wrong/caltech-101.zip
if "$script" wrong >log 2>&1; then fail "a damaged file is taken"; fi
grep -q "wrong checksum" log || fail "a damaged file is not told"
if CALTECH101_MD5=0 "$script" other >log 2>&1; then fail "another checksum is taken"; fi
grep -q "wrong checksum" log || fail "a download of another checksum is not told"
[[ ! -e other/101_ObjectCategories ]] || fail "a download of another checksum is unpacked"
if CALTECH101_URL=file:///nowhere "$script" none >log 2>&1; then fail "no download is no error"; fi
