# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text of C(nvidia-smi --query-...=... --format=csv) and of C(nvidia-smi -L) -> records of it. Private to kentino.gpu.

The header names what was asked for, in the newer spelling even where the older was asked (driver 535.113). Without a header
only what cannot be mistaken is read: UUID, bus address, an error in brackets.
"""

from __future__ import annotations

import re
import typing as t

from . import nvidia_smi_keys as keys
from .gpu_draft import Draft
from .gpu_records import EVENT_REASONS, GpuProcess
from .gpu_values import Failed, count, mebibytes, pci_address, status, unreadable
from .lazy_pattern import lazy
from .nvidia_smi_piece import Piece, cut_off

_COLUMN = lazy(r"([A-Za-z0-9_.]{1,80})(?:\s*\[([A-Za-z%/]{1,8})\])?$")
_UUID = lazy(r"(?:GPU|MIG)-[0-9A-Fa-f]{8}-[0-9A-Fa-f-]{20,40}$")
_BUS = lazy(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$")
_FAULT = lazy(r"\[(?:GPU is lost|GPU requires reset|Unknown Error)\]$", re.IGNORECASE)
_LISTED = lazy(r"GPU ([0-9]{1,4}): (.+?) \(UUID: ([^)\s]+)\)\s*$")
_MIG = lazy(r"\s+MIG .*\(UUID: [^)\s]+\)\s*$")
# A single column is taken for a header only where no other text looks like it.
_ALONE = lazy(r"[a-z_]+(?:\.[a-z_]+)+$|(?:gpu_)?uuid$|gpu_recovery_action$|pstate$")


def looks_like(line: str) -> bool:
    """Whether C(line) is a CSV header, or a row that names a GPU."""
    return bool(_header(line)) or _row_names_gpu(line) or listed(line)


def listed(line: str) -> bool:
    return bool(_LISTED.match(line.strip()) or _MIG.match(line))


def is_header(line: str) -> bool:
    return bool(_header(line))


def _row_names_gpu(line: str) -> bool:
    cells = [cell.strip() for cell in line.split(",")]
    return len(cells) > 1 and any(_UUID.match(cell) or _BUS.match(cell) or _FAULT.match(cell) for cell in cells)


def _header(line: str) -> t.List[str]:
    """The columns, lower case and without units; none where C(line) is not a header."""
    matches = [_COLUMN.match(cell.strip()) for cell in line.split(",")]
    names = [match.group(1).lower() for match in matches if match]
    if not matches or len(names) != len(matches):
        return []
    known = [name for name in names if keys.csv_name(name) or name in keys.CSV_OTHER]
    if len(names) == 1:
        return names if known and _ALONE.match(names[0]) else []
    return names if len(known) * 2 > len(names) else []


def read(lines: t.Sequence[str], at_end: bool = True) -> Piece:
    """The records of C(lines). C(at_end): they are the last of the text, and the last has no line end."""
    piece = Piece("nvidia-smi csv")
    columns: t.List[str] = []
    drafts: t.Dict[str, Draft] = {}
    indexed = _indexed(lines)
    # Rows of one loop (-l) or one process list come back for the same GPU: the last row of a GPU counts.
    last: t.List[str] = []
    for line in lines:
        if listed(line):
            _listed(piece, line, drafts)
            continue
        header = _header(line)
        if header:
            columns, piece.began = header, True
            last = []
            continue
        cells = [cell.strip() for cell in line.split(",")]
        last = _fitted(columns, cells)
        _row(piece, columns or _guessed(last, indexed), last, drafts, line)
    piece.drafts = list(drafts.values())
    _check_end(piece, columns, last, drafts, at_end)
    return piece


def _listed(piece: Piece, line: str, drafts: t.Dict[str, Draft]) -> None:
    match = _LISTED.match(line.strip())
    if match:
        draft = drafts.setdefault(match.group(3), Draft())
        for name, text in zip(("index", "name", "uuid"), match.groups()):
            draft.put(name, text)


def _fitted(columns: t.List[str], cells: t.List[str]) -> t.List[str]:
    """A process name may hold commas: what is too much belongs to it."""
    extra = len(cells) - len(columns)
    if extra <= 0 or "process_name" not in columns:
        return cells
    at = columns.index("process_name")
    return [*cells[:at], ", ".join(cells[at : at + extra + 1]), *cells[at + extra + 1 :]]


def _indexed(lines: t.Sequence[str]) -> bool:
    """Whether rows without a header begin with the index: whole numbers that rise from row to row."""
    firsts = [count(line.split(",")[0]) for line in lines if "," in line and not listed(line)]
    return bool(firsts) and all(isinstance(first, int) for first in firsts) and firsts == sorted(set(firsts), key=str)


def _guessed(cells: t.List[str], indexed: bool) -> t.List[str]:
    """The columns of a row without a header, as far as they cannot be mistaken."""
    columns = ["uuid" if _UUID.match(cell) else "pci.bus_id" if _BUS.match(cell) else "" for cell in cells]
    return ["index", *columns[1:]] if indexed and not columns[0] else columns


def _row(piece: Piece, columns: t.List[str], cells: t.List[str], drafts: t.Dict[str, Draft], line: str) -> None:
    if columns and len(cells) > len(columns):
        piece.puzzle(line)
        return
    if not any(columns) and not any(isinstance(status(cell), Failed) for cell in cells):
        piece.puzzle(line)
        return
    named = dict(zip(columns, cells))
    draft = Draft()
    for column, cell in zip(columns, cells):
        _cell(draft, piece, column, cell)
    if len(cells) < len(columns):
        cut_off(draft)
        piece.cut = piece.cut or "the text ends inside a row: %s" % line.strip()[:80]
    identity = _identity(named) or "row %d" % len(drafts)
    process = _process(named)
    if process is not None or "pid" in columns:
        before = drafts.get(identity)
        draft.processes = [*((before and before.processes) or []), *([process] if process else [])]
    drafts[identity] = draft


def _identity(named: t.Mapping[str, str]) -> str:
    for column in ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial", "index"):
        text = named.get(column, "")
        if text and status(text) is None:
            return pci_address(text)
    return ""


def _cell(draft: Draft, piece: Piece, column: str, text: str) -> None:
    name = keys.csv_name(column)
    if column == "driver_version":
        if status(text) is None:
            piece.system["driver_version"] = text
    elif column == "count":
        if isinstance(count(text), int):
            piece.system["attached"] = text
    elif name == "event_reasons.bits":
        _bits(draft, text)
    elif name and text:
        draft.put(name, text)
    elif name is None:
        found = status(text)
        if isinstance(found, Failed) and (column not in keys.CSV_OTHER or found.kind in ("lost", "reset")):
            # A column without a known name still tells of a GPU that is lost or waits for a reset.
            draft.set(column or "row", found)
        elif column and found is None and column not in keys.CSV_OTHER:
            piece.puzzle("%s: %s" % (column, text))


def _bits(draft: Draft, text: str) -> None:
    found = status(text)
    if found is not None:
        draft.set("event_reasons", found)
    elif re.match(r"0x[0-9A-Fa-f]{1,16}$", text):
        for bit, name in EVENT_REASONS.items():
            draft.set("event_reasons." + name, bool(int(text, 16) & bit))
    else:
        draft.set("event_reasons", unreadable(text))


def _process(named: t.Mapping[str, str]) -> t.Optional[GpuProcess]:
    pid = count(named.get("pid", ""))
    if not isinstance(pid, int):
        return None
    used = mebibytes(named.get("used_gpu_memory", named.get("used_memory", "")))
    name = named.get("process_name", "")
    return GpuProcess(pid, name if name and status(name) is None else None, "compute", used if isinstance(used, int) else None)


def _check_end(piece: Piece, columns: t.List[str], last: t.List[str], drafts: t.Dict[str, Draft], at_end: bool) -> None:
    """CSV has no footer: only the count column tells how many rows there should be."""
    if at_end and columns and last and not piece.cut and not last[-1]:
        piece.cut = "the text ends inside a row"
        cut_off(piece.drafts[-1])
    attached = piece.system.get("attached")
    piece.ended = piece.began and not piece.cut and attached is not None and len(drafts) == int(attached)
    if isinstance(attached, str) and not piece.cut and len(drafts) < int(attached):
        piece.cut = "%d of %s GPUs are listed" % (len(drafts), attached)
