# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table that plain C(nvidia-smi) prints, whole or a few rows of it -> records of it. Private to kentino.gpu.

Column widths changed with drivers 440, 530 and 550, so cells are read by their words, never by their place.
"""

from __future__ import annotations

import re
import typing as t

from .gpu_draft import Draft
from .gpu_records import GpuProcess
from .gpu_values import Failed, Unsupported, count, mebibytes, status
from .lazy_pattern import lazy
from .nvidia_smi_piece import Piece, cut_off

# In front of a pasted table: quotes, comment signs, blanks.
_LINE = lazy(r"[>#*\s]{0,20}([|+].*)$")
_RULE = lazy(r"[|+][-=+|]{8,}")
_VERSIONS = lazy(r"(NVIDIA-SMI|KMD Version|Driver Version|CUDA (?:UMD )?Version):?\s+(\S+)")
# Errors of several words would fall apart into cells.
_SPOKEN = lazy(
    r"Unknown Error|GPU is lost|GPU requires reset|Not Supported|Insufficient Permissions|System is not in ready state", re.IGNORECASE
)
# "   14  NVIDIA RTX 4000 Ada Gene...    On": index, name, persistence mode or, on Windows, driver model.
_NAME = lazy(r"\s*([0-9]{1,4})\s+(.*?)(?:\s+(On|Off|N/A|ERR!|WDDM|TCC|MCDM))?\s*$")
_BUS = lazy(r"\s*((?:[0-9A-Fa-f]{1,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\b")
_TYPE = lazy(r"(?:C|G|M|C\+G|M\+C|M\+C\+G|C\+M)$")
_SLASH = lazy(r"(?<!N)/|/(?!A)")
_FAN_TO_POWER = ("fan_pct", "temperature_c", "performance_state", "power_watts")
_BY_UNIT = {"%": "fan_pct", "C": "temperature_c", "W": "power_watts"}
_COMPUTE_MODES = {"default": "Default", "e. process": "Exclusive_Process", "e. thread": "Exclusive_Thread", "prohibited": "Prohibited"}


def looks_like(line: str) -> bool:
    """Whether C(line) is a rule or a row of the table."""
    match = _LINE.match(line)
    if not match:
        return False
    plain = match.group(1).rstrip()
    return bool(_RULE.match(plain)) or (plain.startswith("|") and plain.count("|") >= 2)


def read(lines: t.Sequence[str]) -> Piece:
    """The records of the rows in C(lines)."""
    reader = _Reader()
    for line in lines:
        match = _LINE.match(line)
        if match:
            reader.line(match.group(1).rstrip())
    return reader.done()


class _Reader:
    def __init__(self) -> None:
        self.piece = Piece("nvidia-smi table")
        self.part = "gpus"  # head gpus mig processes
        self.rows: t.List[t.List[str]] = []  # of the GPU that is being read
        self.processes: t.Dict[int, t.List[GpuProcess]] = {}
        self.listed = False  # the list of processes told that there are some, or none
        self.unclear = False

    def line(self, line: str) -> None:
        if _RULE.match(line):
            self._rule(line)
            return
        if "NVIDIA-SMI" in line:
            self._head(line)
            return
        title = line.strip("| ").lower()
        if title.startswith(("processes:", "compute processes:")):
            self._end_gpu()
            self.part, self.piece.ended = "processes", True
        elif title.startswith("mig devices:"):
            self._end_gpu()
            self.part = "mig"
        elif self.part == "gpus":
            self._row(line)
        elif self.part == "processes":
            self._process(line)

    def _rule(self, line: str) -> None:
        if self.part == "head" and "=" in line:
            self.part = "gpus"
        self._end_gpu()

    def _head(self, line: str) -> None:
        self._end_gpu()
        self.part, self.piece.began, self.piece.ended = "head", True, False
        for label, version in _VERSIONS.findall(line):
            name = {"NVIDIA-SMI": "", "Driver Version": "driver_version", "KMD Version": "driver_version"}.get(label, "cuda_version")
            if name and status(version) is None:
                self.piece.system[name] = version

    def _row(self, line: str) -> None:
        cells = line.strip("|").split("|")
        if not self.rows and re.match(r"\s*(GPU\s+(Name|Fan)|Fan\s+Temp|Fan\b)", cells[0]):
            return  # column titles in a paste that lost its first lines
        if not self.rows and not _NAME.match(cells[0]):
            if any(cell.strip() for cell in cells):
                self.piece.puzzle(line)
                self.piece.cut = self.piece.cut or "a row of the table cannot be made out"
            return
        self.rows.append(cells)

    def _end_gpu(self) -> None:
        rows, self.rows = self.rows, []
        if rows:
            self._gpu(rows, whole=True)

    def _gpu(self, rows: t.List[t.List[str]], whole: bool) -> None:
        draft = Draft()
        self.piece.drafts.append(draft)
        first = _NAME.match(rows[0][0])
        if first:
            draft.put("index", first.group(1))
            draft.put("name", first.group(2))
            if first.group(3) in ("On", "Off"):
                draft.put("persistence_mode", first.group(3))
        if len(rows[0]) > 1:
            bus = _BUS.match(rows[0][1])
            if bus:
                draft.put("pci", bus.group(1))
            elif status(rows[0][1]):
                draft.put("pci", rows[0][1])
        if len(rows[0]) > 2:
            self._ecc(draft, rows[0][2].strip())
        if len(rows) > 1:
            self._readings(draft, rows[1])
        if len(rows) > 2 and len(rows[2]) > 2 and rows[2][2].strip():
            draft.put("mig_mode", rows[2][2])
        if len(rows) < 2 or min(len(row) for row in rows[:2]) < 3 or not whole:
            cut_off(draft)
            self.piece.cut = self.piece.cut or "the table ends inside the row of a GPU"

    def _ecc(self, draft: Draft, text: str) -> None:
        """Volatile Uncorr. ECC: all memories together; Off where ECC is switched off."""
        if not text:
            return
        if text.lower() == "off":
            draft.set("ecc_mode", False)
            return
        reading = draft.put("ecc_volatile.uncorrectable", text)
        if isinstance(reading, int):
            draft.set("ecc_mode", True)
        elif isinstance(reading, Unsupported):
            draft.set("ecc_mode", reading)

    def _readings(self, draft: Draft, cells: t.List[str]) -> None:
        usage, cap = _halves(cells[0])
        _fan_to_power(draft, _words(usage))
        if cap.strip():
            draft.put("power_limit_watts", cap)
        if len(cells) > 1:
            for name, text in zip(("memory_used_mib", "memory_total_mib"), _halves(cells[1])):
                if text.strip():
                    draft.put(name, text)
        if len(cells) > 2:
            words = _words(cells[2])
            if words:
                draft.put("utilisation_pct", words[0])
                mode = " ".join(words[1:]).lower()
                if mode in _COMPUTE_MODES:
                    draft.set("compute_mode", _COMPUTE_MODES[mode])

    def _process(self, line: str) -> None:
        words = line.strip("| ").split()
        if " ".join(words).lower().startswith("no running"):
            self.listed = True
            return
        at = next((number for number, word in enumerate(words) if number >= 2 and _TYPE.match(word)), None)
        index = count(words[0]) if words else None
        pid = count(words[at - 1]) if at else None
        if at is None or not isinstance(index, int) or not isinstance(pid, int):
            # Drivers before 381 print no type; "Insufficient Permissions" and the titles are no processes either.
            if words and re.match(r"[0-9]", words[0]):
                self.piece.puzzle(line)
                self.unclear = True
            return
        used = mebibytes(words[-1]) if len(words) > at + 1 else None
        name = " ".join(words[at + 1 : -1]) or None
        kind = "compute" if "C" in words[at] else "graphics"
        record = GpuProcess(pid, name, kind, used if isinstance(used, int) else None)
        self.processes.setdefault(index, []).append(record)
        self.listed = True

    def done(self) -> Piece:
        piece = self.piece
        if self.rows:
            # No rule after the last row: a paste of a few lines, or a table that was cut.
            rows, self.rows = self.rows, []
            self._gpu(rows, whole=not piece.began)
        if piece.began and not piece.ended and not piece.cut:
            piece.cut = "the table ends before its list of processes"
        piece.ended = piece.ended and piece.began and not piece.cut
        if self.listed and not self.unclear:
            for draft in piece.drafts:
                index = draft.get("index")
                draft.processes = self.processes.get(index, []) if isinstance(index, int) else None
        return piece


def _words(text: str) -> t.List[str]:
    """The words of a cell; an error message is one word."""
    words: t.List[str] = []
    at = 0
    for match in _SPOKEN.finditer(text):
        words += [*text[at : match.start()].split(), match.group()]
        at = match.end()
    return words + text[at:].split()


def _halves(cell: str) -> t.Tuple[str, str]:
    """What stands before and after the slash of C(usage / cap); the one in N/A divides nothing."""
    parts = _SLASH.split(cell, maxsplit=1)
    return parts[0], parts[1] if len(parts) > 1 else ""


def _fan_to_power(draft: Draft, words: t.List[str]) -> None:
    """C(30%   45C    P8    45W): by unit; what has none (N/A, ERR!) by place."""
    for place, word in enumerate(words):
        name = _BY_UNIT.get(word[-1:]) if word[:1].isdigit() else None
        if re.match(r"P[0-9]", word):
            name = "performance_state"
        if name is None and len(words) == len(_FAN_TO_POWER):
            name = _FAN_TO_POWER[place]
        found = status(word)
        if name is not None:
            draft.put(name, word)
        elif isinstance(found, Failed):
            draft.set("row", found)
