# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find JSON objects among other text, and say of each whether its end was seen. Private to kentino.gpu.

Python's own reader gives nothing back for a document that was cut, raises on deep nesting, and refuses the C(inf) that
nccl-tests prints. What it cannot read is the case that matters here: a cut document proves no pass, but a fault that it
shows is a fault.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

from .lazy_pattern import lazy

_OBJECT = lazy(r'\{(?=[\s\x00]*(?:["}]|\Z))')
_TOKEN = lazy(r'[\s\x00]*(?:([{}\[\]:,])|"([^"\\]*(?:\\.[^"\\]*)*)"|([-+.0-9A-Za-z_]+))', re.DOTALL)
_INTEGER = lazy(r"-?[0-9]{1,40}\Z")
_DECIMAL = lazy(r"-?[0-9]{1,400}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,4})?\Z")
_WORDS = {"true": True, "false": False, "null": None, "inf": None, "-inf": None, "nan": None, "-nan": None, "infinity": None}
_DEPTH = 100

_Container = t.Union[t.Dict[str, t.Any], t.List[t.Any]]


@dataclass(frozen=True)
class Document:
    value: t.Dict[str, t.Any]
    start: int  # where the outermost object begins and ends in the text
    end: int
    complete: bool  # its closing brace was seen, and all before it was JSON


def documents(text: str, wanted: t.Callable[[t.Dict[str, t.Any]], bool]) -> t.Tuple[Document, ...]:
    """Every object that C(wanted) accepts, in the order printed, however deep a wrapper put it.

    A value that is not finite is None. In a document that was cut, what the cut touched is left out.
    """
    found: t.List[Document] = []
    position = 0
    while True:
        start = _OBJECT.search(text, position)
        if not start:
            return tuple(found)
        value, end, complete = _read(text, start.start())
        found += [Document(holder, start.start(), end, complete) for holder in _holders(value, wanted)]
        # Not back to the next brace after the start: a long text of half objects would be read once for each of them.
        position = max(end, start.end())


def _holders(value: t.Any, wanted: t.Callable[[t.Dict[str, t.Any]], bool]) -> t.Iterator[t.Dict[str, t.Any]]:
    if isinstance(value, dict):
        if wanted(value):
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _holders(item, wanted)


def _read(text: str, start: int) -> t.Tuple[_Container, int, bool]:
    """The object at C(start), where reading ended, and whether that was its closing brace."""
    root: t.Dict[str, t.Any] = {}
    reader = _Reader(root)
    token = _TOKEN.match(text, start)
    position = token.end() if token else start
    while reader.stack:
        token = _TOKEN.match(text, position)
        if not token:
            return root, position, False
        mark, string, word = token.groups()
        if word is not None and token.end() == len(text):
            return root, len(text), False  # may be the first digits of a longer number
        if not reader.take(mark, string, word):
            return root, token.end(), False
        position = token.end()
    return root, position, True


class _Reader:
    """A JSON reader that is fed token by token and keeps what it has."""

    def __init__(self, root: t.Dict[str, t.Any]) -> None:
        self.stack: t.List[_Container] = [root]
        self.key = ""
        self.state = "first key"  # first key, key, colon, first item, value, next

    def take(self, mark: t.Optional[str], string: t.Optional[str], word: t.Optional[str]) -> bool:
        """False where the token cannot stand here."""
        if mark in ("}", "]"):
            return self._close(mark)
        if self.state == "next":
            self.state = "key" if isinstance(self.stack[-1], dict) else "value"
            return mark == ","
        if self.state in ("first key", "key"):
            self.key = _unescaped(string) if string is not None else ""
            self.state = "colon"
            return string is not None
        if self.state == "colon":
            self.state = "value"
            return mark == ":"
        if mark in ("{", "["):
            return self._open({} if mark == "{" else [])
        if mark:
            return False
        if string is not None:
            self._put(_unescaped(string))
        else:
            known, value = _scalar(word or "")
            if not known:
                return False
            self._put(value)
        self.state = "next"
        return True

    def _open(self, container: _Container) -> bool:
        if len(self.stack) >= _DEPTH:
            return False
        self._put(container)
        self.stack.append(container)
        self.state = "first key" if isinstance(container, dict) else "first item"
        return True

    def _close(self, mark: str) -> bool:
        empty = "first key" if mark == "}" else "first item"
        if self.state not in ("next", empty) or isinstance(self.stack[-1], dict) is not (mark == "}"):
            return False
        self.stack.pop()
        self.state = "next"
        return True

    def _put(self, value: t.Any) -> None:
        top = self.stack[-1]
        if isinstance(top, dict):
            top[self.key] = value
        else:
            top.append(value)


def _unescaped(inner: str) -> str:
    if "\\" not in inner:
        return inner
    try:
        value = json.loads('"%s"' % inner, strict=False)
    except ValueError:
        return inner
    # A lone half of a surrogate pair cannot be written again as UTF-8.
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _scalar(word: str) -> t.Tuple[bool, t.Any]:
    if word.lower() in _WORDS:
        return True, _WORDS[word.lower()]
    if _INTEGER.match(word):
        return True, int(word)
    if _DECIMAL.match(word):
        value = float(word)
        return True, value if abs(value) != float("inf") else None
    return False, None
