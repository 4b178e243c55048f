# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the driver says of itself: /proc/driver/nvidia/version, modinfo, file names. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t

from .._knowledge.driver import OPEN, PROPRIETARY
from .driver_records import Module

VERSION = r"\d{3,4}(?:\.\d+){1,3}"
# NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023
# NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (dvs-builder@...)
_NVRM = re.compile(r"^NVRM version:\s*NVIDIA UNIX (?P<what>.*?Kernel Module.*?)\s\s*(?P<version>%s)\b" % VERSION, re.MULTILINE)
_LIBRARY = re.compile(r"^libnvidia-ml\.so\.(%s)$" % VERSION)
# modinfo prints "version:        580.95.05"; in the module itself it is "version=580.95.05" between NUL bytes.
_FIELD = re.compile(r"(?:^|[\n\0])(version|license|signer|sig_id)\s*[:=][ \t]*([^\n\0]*)")


def loaded(text: str) -> t.Tuple[t.Optional[str], t.Optional[str]]:
    """Version and flavour in C(/proc/driver/nvidia/version); None for what it does not tell."""
    found = _NVRM.search(text)
    if not found:
        return None, None
    return found.group("version"), OPEN if "Open" in found.group("what") else PROPRIETARY


def module(text: str) -> Module:
    """The fields of C(modinfo), or of a module's own C(.modinfo) section."""
    fields: t.Dict[str, str] = {}
    for key, value in _FIELD.findall(text):
        fields.setdefault(key, value.strip())
    version = fields.get("version", "")
    # license: NVIDIA (proprietary), Dual MIT/GPL (open)
    licence = fields.get("license", "")
    flavour = OPEN if "GPL" in licence else PROPRIETARY if licence == "NVIDIA" else None
    signed = bool(fields.get("signer") or fields.get("sig_id")) if fields else None
    return Module(version if re.match(VERSION + "$", version) else None, flavour, signed)


def library(name: str) -> t.Optional[str]:
    """The version in the name of the file behind C(libnvidia-ml.so.1); None for any other name."""
    found = _LIBRARY.match(name)
    return found.group(1) if found else None


def kernel_key(release: str) -> t.Tuple[t.Tuple[int, t.Union[int, str]], ...]:
    """Sort key for kernel releases, as boot loaders sort them: C(6.1.0-9-amd64) before C(6.1.0-13-amd64)."""
    parts = re.findall(r"\d+|[a-z]+", release.lower())
    # A release candidate comes before what it is a candidate for, hence the mark at the end; words come before numbers.
    return (*((1, int(part)) if part.isdigit() else (-1 if part == "rc" else 0, part) for part in parts), (0, ""))


def boot_entry(text: str) -> t.Optional[str]:
    """The kernel release in a boot loader entry (C(/boot/loader/entries/*.conf)); None where it names none."""
    found = re.search(r"^version\s+(\S+)\s*$", text, re.MULTILINE) or re.search(r"^linux\s+\S*vmlinuz-(\S+)\s*$", text, re.MULTILINE)
    return found.group(1) if found else None


def saved_entry(text: str) -> t.Optional[str]:
    """The entry that GRUB boots next, from C(grubenv): that of one boot before the lasting one."""
    entries = dict(re.findall(r"^(next_entry|saved_entry)=(.+)$", text, re.MULTILINE))
    return entries.get("next_entry") or entries.get("saved_entry")


def unowned(paths: t.Iterable[str], said: str) -> t.Tuple[str, ...]:
    """Those of C(paths) that no package brought, by what C(dpkg-query -S) or C(rpm -qf) printed, both of its streams.

    Where F(/lib) is a link to F(/usr/lib) dpkg knows a file by the name that its package used: ask for both.
    """
    return tuple(path for path in paths if not any(_owned(name, said) for name in spellings(path)))


def spellings(path: str) -> t.Tuple[str, ...]:
    """The names that a package may use for the file."""
    short = re.sub(r"^/usr(?=/(?:lib\d*|s?bin)/)", "", path)
    long = re.sub(r"^(?=/(?:lib\d*|s?bin)/)", "/usr", path)
    return tuple(sorted({path, short, long}))


def _owned(name: str, said: str) -> bool:
    # dpkg: "libnvidia-ml1:amd64: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.95.05"
    return bool(re.search(r"^(?!diversion by )[^/\n]+: %s$" % re.escape(name), said, re.MULTILINE))
