#!/usr/bin/env bash
# Downloads Caltech101 (Li, Andreeto, Ranzato and Perona, 2022, 131 MB) and unpacks its images, so
# that data.root can name the folder. Uses what is already there: a whole file, part of a broken
# download, unpacked images.
#   scripts/caltech101.sh FOLDER
# CALTECH101_URL and CALTECH101_MD5 name another place, such as a mirror.
set -euo pipefail

folder=${1-}
[[ -n $folder && $# == 1 ]] || {
  echo "caltech101: wrong arguments; got '$*', want scripts/caltech101.sh FOLDER" >&2
  exit 2
}
url=${CALTECH101_URL:-https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip}
md5=${CALTECH101_MD5:-3138e1922a9193bfa496528edbbc45d0}
file=$folder/caltech-101.zip part=$folder/caltech-101.zip.part images=$folder/101_ObjectCategories

is_whole() { [[ -f $1 && $(md5sum <"$1") == "$md5 "* ]]; }

if [[ -d $images ]]; then
  echo "$images is there"
  exit
fi
command -v unzip >/dev/null || command -v python3 >/dev/null || {
  echo "caltech101: neither unzip nor python3 here; want one of them to unpack the download" >&2
  exit 1
}
mkdir -p "$folder"
if [[ -e $file ]] && ! is_whole "$file"; then
  echo "caltech101: $file: wrong checksum; want $md5, or no such file" >&2
  exit 1
fi
if [[ ! -e $file ]]; then
  command -v curl >/dev/null || { echo "caltech101: no curl; want curl, or $file" >&2; exit 1; }
  # A server refuses to continue a whole file, so only the checksum shows whether it is whole.
  is_whole "$part" || curl --fail --location --retry 3 --continue-at - --output "$part" "$url"
  if ! is_whole "$part"; then
    mv "$part" "$part.bad"
    echo "caltech101: $url: wrong checksum of the download $part.bad; want $md5" >&2
    exit 1
  fi
  mv "$part" "$file"
fi

# Unpacks in another folder, so that an interrupted run leaves no incomplete set.
work=$(mktemp -d "$folder/unpacking-XXXXXX")
trap 'rm -rf "$work"' EXIT
if command -v unzip >/dev/null; then unzip -q "$file" -d "$work"
else python3 -m zipfile -e "$file" "$work"
fi
packed=$(find "$work" -name 101_ObjectCategories.tar.gz | head -n 1)
[[ -n $packed ]] || { echo "caltech101: no 101_ObjectCategories.tar.gz in $file" >&2; exit 1; }
tar -xzf "$packed" -C "$work"
mv "$(find "$work" -type d -name 101_ObjectCategories | head -n 1)" "$images"
echo "$images: $(find "$images" -name '*.jpg' | wc -l) images of $(find "$images" -mindepth 1 \
  -maxdepth 1 -type d | wc -l) classes"
