#!/usr/bin/env python3
"""Lists the library's public headers: all that a header includes, directly or not.

usage: public_headers.py ROOT [HEADER]              prints them, a line each
       public_headers.py ROOT HEADER --install      copies them below include/booster-0.1 of the
                                                    prefix that `meson install` names
"""
import os
import re
import shutil
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def closure(root, header):
    """The header and what it includes of this tree, as sorted paths from the root."""
    found, waiting = set(), [header]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        with open(os.path.join(root, name), encoding='utf-8') as file:
            waiting += [other for other in INCLUDE.findall(file.read())
                        if os.path.exists(os.path.join(root, other))]
    return sorted(found)


def install(root, headers):
    target = os.path.join(os.environ['MESON_INSTALL_DESTDIR_PREFIX'], 'include', 'booster-0.1')
    for name in headers:
        os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
        shutil.copy(os.path.join(root, name), os.path.join(target, name))


def main(arguments):
    root = arguments[0]
    headers = closure(root, arguments[1] if len(arguments) > 1 else 'booster/booster.h')
    if '--install' in arguments:
        install(root, headers)
    else:
        print('\n'.join(headers))


if __name__ == '__main__':
    main(sys.argv[1:])
