# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text of C(nvidia-smi -q), whole or in part -> records of it. Private to kentino.gpu.

The same key stands under several headings (Current, Pending, Total), so a key is read by the heading above it: by indentation,
or, where a paste has lost that, by the nearest heading before.
"""

from __future__ import annotations

import typing as t

from . import nvidia_smi_keys as keys
from .gpu_draft import HAVE_UNIT, Draft
from .gpu_records import GpuProcess
from .gpu_values import Failed, count, mebibytes, status
from .lazy_pattern import lazy
from .nvidia_smi_piece import Piece, cut_off

_BANNER = lazy(r"=+\s*NVSMI LOG\s*=+")
_HEADER = lazy(r"GPU\s+((?:[0-9A-Fa-f]{4,8}:)[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*:?\s*(.*)$")
_PAIR = lazy(r"([^:\s][^:]{0,80}?)\s*:(?:\s+(.*))?$")
_PROCESS = {"process id": "pid", "type": "type", "name": "name", "used gpu memory": "used"}

# Keys that stand under one heading only are known without it: the lines of a grep, the first line of a paste.
_UNIQUE: t.Dict[str, str] = {}
for _section in keys.TEXT.values():
    for _key, _name in _section.items():
        _UNIQUE[_key] = _name if _UNIQUE.get(_key, _name) == _name else "?"
_UNIQUE.update((key, name) for key, name in keys.TEXT["ecc errors"].items() if name.startswith("ecc_section_unknown"))
_UNIQUE.update((key, name) for key, name in keys.TEXT[""].items())
# Words too common to be taken for nvidia-smi's without their heading.
_COMMON = "total, used, free, reserved, max, high, low, none, partial, state, status, summary, gpu, memory, sm"
_UNIQUE.update((key, "?") for key in _COMMON.split(", "))
_UNIQUE["idle"] = "event_reasons.idle"

# These keys stand below headings of which nothing is kept as well (counters of the reasons, power of the module).
_DOUBTFUL = frozenset(key for heading in ("clocks event reasons", "power readings") for key in keys.TEXT[heading])

_SECTIONS = frozenset(part for heading in keys.TEXT for part in heading.split("/") if part)
_HEADINGS = _SECTIONS | keys.TEXT_OTHER_SECTIONS
_VOCABULARY = _HEADINGS | frozenset(_UNIQUE) | keys.TEXT_OTHER_KEYS | frozenset(keys.TEXT_SYSTEM) | frozenset(_PROCESS)
# So many known keys below one unknown heading are the block of a GPU whose header was spoilt, not a new section.
_STRAYS_MAX = 5
# Below a MIG device, whose headings are those of a GPU.
_MIG = keys.names(
    """index, gpu instance id, compute instance id, device attributes, shared, ecc errors, volatile, aggregate, sram uncorrectable,
    sram uncorrectable parity, sram uncorrectable sec-ded, fb memory usage, bar1 memory usage, total, reserved, used, free"""
)


def looks_like(line: str) -> bool:
    """Whether C(line) is one that -q prints: a GPU's header, or a key that is known."""
    plain = line.strip()
    if _BANNER.match(plain) or _HEADER.match(plain):
        return True
    key, value = _pair(plain)
    return key in _VOCABULARY if value is not None else key in _HEADINGS


def _pair(plain: str) -> t.Tuple[str, t.Optional[str]]:
    """C((key, value)); the value is None for a heading."""
    match = _PAIR.match(plain)
    if not match:
        return " ".join(plain.lower().split()), None
    return " ".join(match.group(1).lower().split()), (match.group(2) or "").strip()


def read(lines: t.Sequence[str], at_end: bool = True) -> Piece:
    """The records of C(lines). C(at_end): they are the last of the text, and the last has no line end."""
    reader = _Reader(_indented(lines))
    for line in lines:
        reader.line(line)
    return reader.done(at_end)


def _indented(lines: t.Sequence[str]) -> bool:
    """Whether indentation was kept: some heading is followed by a deeper line."""
    heading: t.Optional[int] = None
    headings = 0
    for line in lines:
        if not line.strip():
            continue
        depth = _depth(line)
        if heading is not None and depth > heading:
            return True
        known = not _HEADER.match(line.strip()) and _pair(line.strip())[1] is None and _pair(line.strip())[0] in _HEADINGS
        heading = depth if known else None
        headings += known
    return headings == 0


def _depth(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


class _Reader:
    def __init__(self, indented: bool) -> None:
        self.piece = Piece("nvidia-smi text")
        self.indented = indented
        self.headings: t.List[t.Tuple[int, str]] = []
        self.draft: t.Optional[Draft] = None
        self.in_gpu = False
        self.seen: t.Set[t.Tuple[str, ...]] = set()
        self.mig = False
        self.last: t.Tuple[str, str, str] = ("", "", "")  # key, value, name of the last pair; value "" for a heading
        self.last_line = ""
        self.broken = ""
        self.strays = 0  # known keys below a heading that is not
        self.process: t.Optional[t.Dict[str, str]] = None
        # Of each GPU in turn: the headings and keys at its outermost level, in order.
        self.outline: t.List[t.List[str]] = []

    def line(self, line: str) -> None:
        plain = line.strip()
        if not plain or not plain.strip(".[]-=…"):
            return
        if _BANNER.match(plain):
            self._end_process()
            self.piece.began, self.in_gpu, self.draft, self.headings = True, False, None, []
            return
        self.last_line = line
        header = _HEADER.match(plain)
        if header:
            self._gpu(header.group(1), header.group(2))
            return
        key, value = _pair(plain)
        if value is None or (value == "" and key in _HEADINGS):
            self._heading(_depth(line), key, plain)
        else:
            self._key(_depth(line), key, value, plain)

    def _gpu(self, address: str, rest: str) -> None:
        self._end_process()
        self.draft = Draft()
        self.draft.put("pci", address)
        found = status(rest) if rest else None
        if isinstance(found, Failed):
            self.draft.set("gpu", found)
        self.piece.drafts.append(self.draft)
        self.in_gpu, self.mig, self.headings, self.seen = True, False, [], set()
        self.outline.append([])
        self.last = ("gpu", address, "pci")

    def _path(self, depth: int) -> t.Tuple[str, ...]:
        if not self.indented:
            return tuple(heading for dummy, heading in self.headings)
        while self.headings and self.headings[-1][0] >= depth:
            self.headings.pop()
        return tuple(heading for dummy, heading in self.headings)

    def _heading(self, depth: int, key: str, plain: str) -> None:
        self._end_process()
        path = self._path(depth)
        if not self.indented:
            # "Single Bit" belongs to the Volatile or Aggregate before it; every other heading stands for itself.
            scopes = [pair for pair in self.headings if pair[1] in ("volatile", "aggregate")]
            self.headings = scopes[-1:] if key in ("single bit", "double bit") else []
            self.mig = key in ("mig device", "mig devices") or (self.mig and key in _MIG)
        self.headings.append((depth, key))
        if not path:
            self._note(key)
        if key == "processes" and not path and self.draft is not None:
            self.draft.processes = self.draft.processes or []
        self.last = (key, "", "")
        if key not in _HEADINGS and not keys.TEXT_OTHER_SECTIONS.intersection(path):
            self.piece.puzzle(plain)

    def _key(self, depth: int, key: str, value: str, plain: str) -> None:
        path = self._path(depth)
        self.last = (key, value, "")
        if not self.in_gpu and not path and key in keys.TEXT_SYSTEM:
            if keys.TEXT_SYSTEM[key]:
                self.piece.system.setdefault(keys.TEXT_SYSTEM[key], value)
            self.piece.began = self.piece.began or key == "attached gpus"
            return
        listing = "processes" in path or (not path and (self.process is not None or key == "process id"))
        if listing and self._process_key(key, value):
            return
        if key == "processes":
            self._no_processes(value)
            self._note(key)
            return
        if not self.indented and self.mig:
            self.mig = key in _MIG or key.endswith(" count")
        if self.mig or {"mig device", "mig devices"}.intersection(path):
            return
        name, where = self._name(path, key)
        if not where:
            self._note(key)
        if name:
            self._current((*where, key) if not name.startswith("ecc_section_unknown") else ()).put(name, value)
            self.last = (key, value, name)
        elif name is None and key not in keys.TEXT_OTHER_KEYS and not keys.TEXT_OTHER_SECTIONS.intersection(path):
            self.piece.puzzle(plain)

    def _name(self, path: t.Tuple[str, ...], key: str) -> t.Tuple[t.Optional[str], t.Tuple[str, ...]]:
        """The name of C(key) below C(path), and the part of the path that told it; None where it is not known."""
        for end in range(len(path), 0, -1):
            for heading in ("/".join(path[max(0, end - 2) : end]), path[end - 1]):
                if key in keys.TEXT.get(heading, {}):
                    return keys.TEXT[heading][key], path[:end]
            if path[end - 1] not in _SECTIONS and self.indented:
                # A heading that is not known, or one of the kind whose keys are those of another.
                self._stray(path, key)
                return None, path[:end]
        if not path or not self.indented:
            name = keys.TEXT[""].get(key) or _UNIQUE.get(key)
            told = not path or (path[-1] in _HEADINGS and not (path[-1] in keys.TEXT_OTHER_SECTIONS and key in _DOUBTFUL))
            if name and name != "?" and told:
                return name, ()
        return None, path

    def _stray(self, path: t.Tuple[str, ...], key: str) -> None:
        if path[0] not in _HEADINGS and key in _VOCABULARY:
            self.strays += 1
            if self.strays == _STRAYS_MAX:
                self.broken = self.broken or "values stand below a heading that cannot be made out: %s" % path[0]

    def _note(self, key: str) -> None:
        if self.outline:
            self.outline[-1].append(key)

    def _current(self, path: t.Tuple[str, ...]) -> Draft:
        """The GPU that is being read; ahead of any header, a fragment without identity, and another one where C(path) repeats."""
        again = bool(path) and path in self.seen
        if again and self.in_gpu:
            # A header that was lost or spoilt: two GPUs would become one.
            self.broken = self.broken or "%s stands twice in one GPU's block" % path[-1]
        if self.draft is None or (again and not self.in_gpu):
            self.draft = Draft()
            self.piece.drafts.append(self.draft)
            self.seen = set()
        if path:
            self.seen.add(path)
        return self.draft

    def _no_processes(self, value: str) -> None:
        self._end_process()
        draft = self._current(("processes",))
        if value.lower() == "none":
            draft.processes = draft.processes or []
        else:
            draft.put("processes", value)

    def _process_key(self, key: str, value: str) -> bool:
        """Whether C(key) is part of the list of processes."""
        if key in ("gpu instance id", "compute instance id", "process id"):
            if key == "process id":
                self._end_process()
                self.process = {}
            elif self.process is not None and "pid" in self.process:
                self._end_process()
        elif self.process is None or key not in _PROCESS:
            self._end_process()
            return False
        if key in _PROCESS and self.process is not None:
            self.process[_PROCESS[key]] = value
        return True

    def _end_process(self) -> None:
        process, self.process = self.process, None
        if not process:
            return
        pid, used = count(process.get("pid", "")), mebibytes(process.get("used", ""))
        if isinstance(pid, int):
            kind = ("compute" if "C" in process["type"] else "graphics") if "type" in process else None
            draft = self._current(())
            record = GpuProcess(pid, process.get("name") or None, kind, used if isinstance(used, int) else None)
            draft.processes = [*(draft.processes or []), record]

    def done(self, at_end: bool) -> Piece:
        self._end_process()
        piece = self.piece
        piece.cut = self.broken or self._cut(at_end)
        if not piece.cut and piece.began and self.outline:
            piece.cut = self._missing_end()
        if piece.cut and self.draft is not None:
            cut_off(self.draft)
        piece.ended = piece.began and bool(self.outline) and not piece.cut
        return piece

    def _cut(self, at_end: bool) -> str:
        """What is odd about the last line; empty where it may be the end."""
        key, value, name = self.last
        if not key:
            return ""
        if not value and key not in _HEADINGS:
            near = any(word.startswith(key) for word in _VOCABULARY)
            return "the text ends inside a line: %s" % self.last_line.strip() if near or _depth(self.last_line) else ""
        if not value:
            return "the text ends at the heading %s" % self.last_line.strip()
        if at_end and name in HAVE_UNIT and status(value) is None and value[-1:].isdigit():
            return "the text ends inside a line: %s" % self.last_line.strip()
        return ""

    def _missing_end(self) -> str:
        """A whole report ends every GPU's block alike, and a full one with its processes."""
        last = self.outline[-1]
        if not last:
            return "the text ends at the header of a GPU"
        for earlier in self.outline[:-1]:
            if earlier and earlier[-1] not in last:
                return "the last GPU's block ends before %s" % earlier[-1]
        if "product name" in last and "processes" not in last:
            return "the last GPU's block ends before its processes"
        return ""
