# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Any text of nvidia-smi -> one reading. Private to kentino.gpu.

XML, -q, the table, CSV, -L and error messages, whole or in part, alone or mixed: a lost GPU puts its message in front of, behind
or in place of the report.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from . import nvidia_smi_csv, nvidia_smi_errors, nvidia_smi_table, nvidia_smi_text, nvidia_smi_xml
from .gpu_draft import Draft
from .gpu_records import GpuReading
from .gpu_values import Failed, count, status
from .lazy_pattern import lazy
from .nvidia_smi_errors import Messages
from .nvidia_smi_piece import UNRECOGNISED_MAX, Piece

# No node has more; a text that repeats itself must not become a reading without end.
_GPUS_MAX = 512

_ESCAPES = lazy(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|[\x00\ufeff]")
_COMMAND = lazy(r"(?:^|[$#>%]\s*)(?:sudo\s+)?(?:/[\w./-]{1,60}/)?nvidia-smi(?:\.exe)?(?:\s+-\S.{0,300})?$")
# Mon Jan 20 10:18:26 2025
_DATE = lazy(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8} [0-9]{4}$")
_SIMULATED = lazy(r"(?:<!--[^>]{0,300}|^[ \t]*#.{0,300})\bsimulated\b", re.IGNORECASE | re.MULTILINE)


def parse(text: t.Union[str, bytes], rc: t.Optional[int] = None) -> GpuReading:
    """What C(text), the output and the errors of one nvidia-smi, tells; C(rc) is its exit status where known.

    Never raises. C(error_kind) C(garbled) says that the text breaks off or could not be made out.
    """
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    plain = _ESCAPES.sub("", plain).replace("\r\n", "\n").replace("\r", "\n")
    messages = Messages()
    pieces, unrecognised = _pieces(plain, messages)
    reading = _combine(pieces, messages, unrecognised, rc, blank=not plain.strip())
    if _SIMULATED.search(plain):
        return dataclasses.replace(reading, simulated=True)
    return reading


def _pieces(plain: str, messages: Messages) -> t.Tuple[t.List[Piece], t.List[str]]:
    """The pieces of each form in C(plain), and the lines of none."""
    pieces = []
    if nvidia_smi_xml.looks_like(plain):
        piece, plain = nvidia_smi_xml.read(plain)
        pieces.append(piece)
    unrecognised: t.List[str] = []
    table, rows, rest = _sorted(plain, messages)
    at_end = not plain.endswith("\n")
    if any(nvidia_smi_text.looks_like(line) for line in rest):
        pieces.append(nvidia_smi_text.read(rest, at_end))
    else:
        unrecognised += [" ".join(line.split())[:200] for line in rest if line.strip()]
    if table:
        piece = nvidia_smi_table.read(table)
        piece.cut = piece.cut or _stray(plain, rest)
        piece.ended = piece.ended and not piece.cut
        pieces.append(piece)
    if rows:
        pieces.append(nvidia_smi_csv.read(rows, at_end))
    return pieces, unrecognised


def _stray(plain: str, rest: t.Sequence[str]) -> str:
    """A line inside the table that is none of its rows and nothing else: a row that was spoilt, perhaps a GPU."""
    lines = [line for line in plain.split("\n") if line.strip()]
    places = [place for place, line in enumerate(lines) if nvidia_smi_table.looks_like(line)]
    others = {line for line in rest if not nvidia_smi_text.looks_like(line)}
    inside = [line for line in lines[places[0] : places[-1]] if line in others]
    return "a line of the table cannot be made out: %s" % inside[0].strip()[:80] if inside else ""


def _sorted(plain: str, messages: Messages) -> t.Tuple[t.List[str], t.List[str], t.List[str]]:
    """The lines of the table, of CSV and the others, in order; messages are taken out."""
    lines = plain.split("\n")
    table: t.List[str] = []
    rows: t.List[str] = []
    rest: t.List[str] = []
    in_table = any(nvidia_smi_table.looks_like(line) for line in lines)
    columns = 0  # of the CSV that is being read
    for line in lines:
        bare = line.strip()
        if not bare or _COMMAND.search(bare) or _DATE.match(bare):
            columns = columns if bare else 0
            continue
        if nvidia_smi_table.looks_like(line) or (in_table and bare.startswith("|")):
            table.append(line)
            columns = 0
        elif nvidia_smi_csv.looks_like(line):
            rows.append(line)
            columns = line.count(",") + 1 if nvidia_smi_csv.is_header(line) else columns
        elif nvidia_smi_text.looks_like(line):
            rest.append(line)
            columns = 0
        elif columns > 1 and "," in line and not nvidia_smi_errors.is_message(line):
            rows.append(line)
        elif nvidia_smi_errors.take(line, messages):
            continue
        elif columns:
            rows.append(line)
        else:
            rest.append(line)
    return table, rows, rest


def _combine(pieces: t.List[Piece], messages: Messages, unrecognised: t.List[str], rc: t.Optional[int], blank: bool) -> GpuReading:
    system: t.Dict[str, str] = {}
    drafts: t.List[Draft] = []
    complete, cut = False, ""
    for piece in pieces:
        for key, value in piece.system.items():
            system.setdefault(key, value)
        piece.drafts = _latest(piece.drafts)
        if len(piece.drafts) > _GPUS_MAX:
            piece.drafts, piece.ended, piece.cut = piece.drafts[:_GPUS_MAX], False, "more than %d GPUs are named" % _GPUS_MAX
        _number(piece)
        complete = complete or _whole(piece, messages)
        cut = cut or piece.cut
        for draft in piece.drafts:
            _merge(draft, drafts)
        unrecognised = unrecognised + piece.unrecognised
    _from_messages(drafts, messages)
    gpus = tuple(draft.gpu() for draft in drafts if not draft.empty())
    lost = list(messages.lost)
    lost += [gpu.pci for gpu in gpus if gpu.state == "lost" and gpu.pci and gpu.pci not in lost]
    attached = _attached(system.get("attached"))
    kind, error = _error(messages, rc, cut, bool(gpus), bool(lost), blank)
    spoilt = [line for line in (*messages.other, *unrecognised) if "\ufffd" in line]
    if kind is None and spoilt and not complete:
        kind, error = "garbled", "not all could be made out: %s" % spoilt[0]
    if kind is None and attached is not None and gpus and not complete and not any(piece.source.endswith("csv") for piece in pieces):
        kind, error = "other", "%d GPUs are attached, the text holds %d" % (attached, len(gpus))
    return GpuReading(
        source=next((piece.source for piece in pieces if piece.drafts), "nvidia-smi"),
        gpus=gpus,
        lost=tuple(lost),
        driver_version=_version(system.get("driver_version")),
        cuda_version=_version(system.get("cuda_version")),
        nvml_version=_version(system.get("nvml_version")),
        attached=attached,
        complete=complete and kind is None,
        error_kind=kind,
        error=error,
        unrecognised=tuple((messages.other + unrecognised)[:UNRECOGNISED_MAX]),
        simulated=any("[simulated]" in (gpu.name or "").lower() for gpu in gpus),
    )


def _latest(drafts: t.List[Draft]) -> t.List[Draft]:
    """A loop (-l, watch) prints every GPU again: the last print counts, in the order of the first."""
    latest: t.Dict[t.Any, Draft] = {}
    for number, draft in enumerate(drafts):
        latest[draft.get("pci") or draft.get("uuid") or number] = draft
    return list(latest.values())


def _number(piece: Piece) -> None:
    """-q and XML print no index, but all GPUs in its order: where none is missing, the place is the index."""
    listed = piece.source in ("nvidia-smi xml", "nvidia-smi text")
    if listed and piece.ended and _attached(piece.system.get("attached")) == len(piece.drafts):
        for number, draft in enumerate(piece.drafts):
            draft.set("index", number)


def _whole(piece: Piece, messages: Messages) -> bool:
    """Whether the piece is a whole report of all GPUs; one that is named as lost need not have a block of its own."""
    if not piece.ended:
        return False
    attached = _attached(piece.system.get("attached"))
    if attached is None:
        return piece.source in ("nvidia-smi table", "nvidia-smi xml") and bool(piece.drafts)
    known = {draft.get("pci") for draft in piece.drafts}
    return len(piece.drafts) + sum(address not in known for address in messages.lost) == attached


def _merge(draft: Draft, into: t.List[Draft]) -> None:
    """Two forms of one GPU become one; what names no GPU belongs to the only one there is."""
    if draft.named():
        for known in into:
            if any(draft.get(name) is not None and draft.get(name) == known.get(name) for name in ("pci", "uuid", "index")):
                known.fill(draft)
                return
    if len(into) == 1 and draft.named() != into[0].named():
        into[0].fill(draft)
    else:
        into.append(draft)


def _from_messages(drafts: t.List[Draft], messages: Messages) -> None:
    for index in messages.lost_unnamed:
        draft = next((known for known in drafts if index is not None and known.get("index") == index), None)
        if draft is None:
            draft = Draft()
            drafts.append(draft)
            if index is not None:
                draft.set("index", index)
        draft.set("gpu", Failed("GPU is lost", "lost"))
    for address in messages.inforom:
        named = [draft for draft in drafts if draft.get("pci") == address] or (drafts if len(drafts) == 1 and not address else [])
        if not named:
            named = [Draft()]
            drafts.append(named[0])
            if address:
                named[0].put("pci", address)
        named[0].set("inforom", Failed("infoROM is corrupted"))


def _error(
    messages: Messages, rc: t.Optional[int], cut: str, gpus: bool, lost: bool, blank: bool
) -> t.Tuple[t.Optional[str], t.Optional[str]]:
    if messages.kind and not (lost and messages.kind == "no_devices"):
        return messages.kind, messages.text
    if cut:
        return "garbled", cut
    kind, error = nvidia_smi_errors.by_exit_status(rc)
    if kind and not (lost and not gpus):
        return kind, error
    if gpus or lost:
        return None, None
    return ("other", "nvidia-smi printed nothing") if blank else ("garbled", "nothing in the text is nvidia-smi's")


def _attached(text: t.Optional[str]) -> t.Optional[int]:
    number = count(text) if text is not None else None
    return number if isinstance(number, int) else None


def _version(text: t.Optional[str]) -> t.Optional[str]:
    return text if text and status(text) is None else None
