# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text of C(nvidia-smi -q -x) -> records of it. Private to kentino.gpu.

Read tag by tag and not with an XML library: some drivers write attributes twice and bytes that are not UTF-8, pastes have no
root, and a library would have to be kept from resolving the DOCTYPE and from expanding entities. The price is that nesting is
checked here: where it breaks, the reading is marked as broken.
"""

from __future__ import annotations

import re
import typing as t

from . import nvidia_smi_keys as keys
from .gpu_draft import Draft
from .gpu_records import GpuProcess
from .gpu_values import Failed, count, mebibytes, status
from .lazy_pattern import lazy
from .nvidia_smi_piece import Piece, cut_off

ROOT = "nvidia_smi_log"

_NAME = lazy(r"/?\s*([A-Za-z_][A-Za-z0-9_.-]{0,99})")
_ID = lazy(r"""\bid\s*=\s*["']([^"'<>]{0,64})""")
_ENTITY = lazy(r"&(?:#([0-9]{1,7})|(amp|lt|gt|quot|apos));")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_DOCTYPE_END = lazy(r"\]\s*>")
_TAGS = frozenset(tag for key in keys.XML for tag in key.split("/")) | {ROOT, "gpu", "process_info"} | frozenset(keys.XML_SYSTEM)
_REASON = ("clocks_event_reason", "clocks_throttle_reason")


def looks_like(text: str) -> bool:
    """Whether C(text) holds at least one tag that nvidia-smi prints."""
    return any(match.group(1) in _TAGS for match in re.finditer(r"<([A-Za-z_][A-Za-z0-9_]{1,99})[ \t\r\n>/]", text))


def read(text: str) -> t.Tuple[Piece, str]:
    """The records of the XML in C(text), and the text around it."""
    reader = _Reader()
    for kind, content in _tokens(text):
        if kind == "text":
            reader.text(content)
        else:
            reader.tag(content)
    return reader.done()


def _tokens(text: str) -> t.Iterator[t.Tuple[str, str]]:
    """C(("text", ...)) and C(("tag", what stands between < and >)); comments, DOCTYPE and instructions are left out."""
    at = 0
    while at < len(text):
        start = text.find("<", at)
        if start < 0:
            yield "text", text[at:]
            return
        if start > at:
            yield "text", text[at:start]
        skip = _skip(text, start)
        if skip:
            at = skip
            continue
        end = text.find(">", start + 1)
        again = text.find("<", start + 1)
        if end < 0:
            yield "tag", text[start + 1 :] + "<"  # cut inside a tag
            return
        if 0 <= again < end:  # a bare "<" in text
            yield "text", text[start:again]
            at = again
        else:
            yield "tag", text[start + 1 : end]
            at = end + 1


def _skip(text: str, start: int) -> int:
    """Where a comment, an instruction or the DOCTYPE that begins at C(start) ends; 0 where none begins."""
    for opening, closing in (("<!--", "-->"), ("<?", "?>")):
        if text.startswith(opening, start):
            end = text.find(closing, start + len(opening))
            return len(text) if end < 0 else end + len(closing)
    if not text.startswith("<!", start):
        return 0
    end, bracket = text.find(">", start), text.find("[", start)
    if 0 <= bracket < end:
        # An internal subset: entity definitions, which are neither read nor expanded.
        closing_bracket = _DOCTYPE_END.search(text, bracket)
        return closing_bracket.end() if closing_bracket else len(text)
    return len(text) if end < 0 else end + 1


def _plain(text: str) -> str:
    def value(match: t.Match[str]) -> str:
        if match.group(2):
            return _ENTITIES[match.group(2)]
        number = int(match.group(1))
        return chr(number) if 0 < number < 0xD800 else ""

    return _ENTITY.sub(value, text).strip()


class _Element:
    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.parts: t.List[str] = []
        self.children = False


class _Reader:
    def __init__(self) -> None:
        self.piece = Piece("nvidia-smi xml")
        self.around: t.List[str] = []
        self.stack: t.List[_Element] = []
        self.draft: t.Optional[Draft] = None
        self.fragment: t.Optional[Draft] = None
        self.seen: t.Set[t.Tuple[str, ...]] = set()
        self.process: t.Dict[str, str] = {}
        self.closed = False
        self.broken = ""

    def text(self, content: str) -> None:
        # Between the GPUs stand messages about those that could not be read.
        if self.stack and self.stack[-1].tag != ROOT:
            self.stack[-1].parts.append(content)
        else:
            self.around.append(content)

    def tag(self, content: str) -> None:
        match = _NAME.match(content)
        if not match:
            self.text("<" + content + ">")
            return
        name = match.group(1)
        if content.endswith("<"):
            self.broken = self.broken or "the XML ends inside a tag"
        elif content.lstrip().startswith("/"):
            self._close(name)
        else:
            self._open(name, content)
            if content.endswith("/"):
                self._close(name)

    def _open(self, name: str, content: str) -> None:
        if self.stack:
            self.stack[-1].children = True
        if name == ROOT:
            self.piece.began, self.closed = True, False
        elif name == "gpu":
            while self.draft is not None:
                self._mismatch("<gpu> inside <gpu>")
                self._drop()
            self.draft = Draft()
            self.piece.drafts.append(self.draft)
            self.seen = set()
            identity = _ID.search(content)
            if identity and identity.group(1).strip():
                self.draft.put("pci", identity.group(1))
        elif name == "process_info":
            self.process = {}
        self.stack.append(_Element(name))

    def _close(self, name: str) -> None:
        if not any(element.tag == name for element in self.stack):
            self._mismatch("</%s> closes nothing" % name)
            return
        while self.stack[-1].tag != name:
            self._mismatch("<%s> is not closed" % self.stack[-1].tag)
            self._drop()
        element = self.stack.pop()
        path = (*(outer.tag for outer in self.stack if outer.tag not in (ROOT, "gpu")), name)
        content = _plain("".join(element.parts))
        if name == ROOT:
            self.closed = True
        elif name == "gpu":
            self._end_gpu(cut=False, content=content)
        elif name == "processes":
            self._end_processes(element, content)
        elif name == "process_info":
            self._end_process()
        elif "process_info" in path:
            self.process[name] = content
        elif not element.children:
            self._leaf(path, content)

    def _drop(self) -> None:
        """Leave an element that was never closed."""
        if self.stack.pop().tag == "gpu":
            self._end_gpu(cut=True)

    def _mismatch(self, what: str) -> None:
        self.broken = self.broken or "the XML is not well formed: " + what

    def _end_gpu(self, cut: bool, content: str = "") -> None:
        if self.draft is not None:
            if cut:
                cut_off(self.draft)
            found = status(content) if content else None
            if isinstance(found, Failed):
                self.draft.set("gpu", found)
        self.draft = None

    def _end_processes(self, element: _Element, content: str) -> None:
        draft = self._current(("processes",))
        if element.children or not content or content.lower() == "none":
            draft.processes = draft.processes or []
        else:
            draft.put("processes", content)

    def _end_process(self) -> None:
        pid, used = count(self.process.get("pid", "")), mebibytes(self.process.get("used_memory", ""))
        if isinstance(pid, int):
            draft = self._current(("processes",))
            kind = "compute" if "C" in self.process.get("type", "") else "graphics"
            name = self.process.get("process_name") or None
            draft.processes = [*(draft.processes or []), GpuProcess(pid, name, kind, used if isinstance(used, int) else None)]
        else:
            self.piece.puzzle("process_info without a pid")

    def _current(self, path: t.Tuple[str, ...]) -> Draft:
        """The GPU that is being read; outside of any, a fragment without identity, and another one where C(path) repeats."""
        if self.draft is not None:
            if path in self.seen and path != ("processes",):
                # A tag that was lost or spoilt: two GPUs would become one.
                self.broken = self.broken or "<%s> stands twice in one GPU" % path[-1]
            self.seen.add(path)
            return self.draft
        if self.fragment is None or (path in self.seen and path != ("processes",)):
            self.fragment = Draft()
            self.piece.drafts.append(self.fragment)
            self.seen = set()
        self.seen.add(path)
        return self.fragment

    def _leaf(self, path: t.Tuple[str, ...], content: str) -> None:
        tag = path[-1]
        if not content or keys.XML_OTHER.intersection(path):
            return
        if self.draft is None and tag in keys.XML_SYSTEM:
            self.piece.system.setdefault(keys.XML_SYSTEM[tag], content)
            return
        name = next((keys.XML[key] for key in ("/".join(path[-length:]) for length in (3, 2, 1)) if key in keys.XML), None)
        if name is None and not {"volatile", "aggregate"}.intersection(path):
            name = keys.XML_BARE.get(tag)
        if name:
            self._current(path).put(name, content)
        elif name is not None:
            return
        elif tag not in keys.XML_OTHER_TAGS:
            self.piece.puzzle("<%s>%s" % (tag, content))

    def done(self) -> t.Tuple[Piece, str]:
        piece = self.piece
        if self.draft is not None:
            self._end_gpu(cut=True)
        if self.stack:
            self.broken = self.broken or "the XML ends inside <%s>" % self.stack[-1].tag
            if self.fragment is not None:
                cut_off(self.fragment)
        piece.cut = self.broken
        piece.ended = piece.began and self.closed and not self.broken
        if piece.began and not self.closed:
            piece.cut = piece.cut or "the XML ends before </%s>" % ROOT
        if self.broken:
            piece.puzzle(self.broken)
        return piece, "".join(self.around)
