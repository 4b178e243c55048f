# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Takes the text of a shell script apart into words, as a shell would, and runs nothing. Private to kentino.gpu.

The module shlex raises where a quote is left open, loses what is behind a C(#) inside a word, and does not count lines.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

_OPERATORS = ";&|()<>"
_BLANKS = " \t\r"


@dataclass(frozen=True)
class Word:
    text: str  # without its quotes
    line: int
    operator: bool = False
    literal: bool = True  # False: the shell puts something in here when it runs
    quoted_start: bool = False


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.parts: t.Optional[t.List[str]] = None
        self.began = 1
        self.literal = True
        self.quoted_start = False
        self.documents: t.List[str] = []
        self.awaits_document = False

    def read(self) -> t.Iterator[Word]:
        text = self.text
        while self.at < len(text):
            c = text[self.at]
            if c == "\n":
                yield from self._end()
                yield Word("\n", self.line, operator=True)
                self._forward(1)
                self._skip_documents()
            elif c in _BLANKS:
                yield from self._end()
                self.at += 1
            elif c == "#" and self.parts is None:
                self.at = self._find("\n")
            elif c in _OPERATORS:
                yield from self._end()
                yield self._operator()
            else:
                self._part(c)
        yield from self._end()

    def _part(self, c: str) -> None:
        """One more piece of the word."""
        if self.parts is None:
            self.parts, self.began, self.literal, self.quoted_start = [], self.line, True, c in "\"'"
        text = self.text
        if c == "\\":
            following = text[self.at + 1 : self.at + 2]
            if following != "\n":
                self.parts.append(following)
            self._forward(2)
            if following == "\n" and not self.parts:
                self.parts = None
        elif c == "'":
            end = self._find("'", self.at + 1)
            self._take(self.at + 1, end)
        elif c == '"':
            self._double()
        elif c == "`":
            self.literal = False
            self._take(self.at, self._find("`", self.at + 1))
        elif c == "$":
            self.literal = False
            self._dollar()
        else:
            self.parts.append(c)
            self.at += 1

    def _double(self) -> None:
        self.at += 1
        text, parts = self.text, self._parts()
        while self.at < len(text) and text[self.at] != '"':
            c = text[self.at]
            if c == "\\" and text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                if text[self.at + 1] != "\n":
                    parts.append(text[self.at + 1])
                self._forward(2)
            elif c == "$":
                self.literal = False
                self._dollar()
            else:
                self.literal = self.literal and c != "`"
                parts.append(c)
                self._forward(1)
        self.at += 1

    def _dollar(self) -> None:
        """C($X), C(${X}) or C($(...)) as it stands there."""
        opening = self.text[self.at + 1 : self.at + 2]
        if opening not in ("{", "("):
            self._parts().append("$")
            self.at += 1
            return
        closing = "}" if opening == "{" else ")"
        depth, end = 0, self.at + 1
        while end < len(self.text):
            depth += (self.text[end] == opening) - (self.text[end] == closing)
            if depth == 0:
                break
            end += 1
        self._take(self.at, end, keep=True)

    def _operator(self) -> Word:
        begin = self.at
        while self.at < len(self.text) and self.text[self.at] in _OPERATORS and self.text[self.at] == self.text[begin]:
            self.at += 1
        operator = self.text[begin : self.at]
        if operator == "<<":
            self.awaits_document = True
            if self.text[self.at : self.at + 1] == "-":
                self.at += 1
        return Word(operator, self.line, operator=True)

    def _end(self) -> t.Iterator[Word]:
        if self.parts is None:
            return
        word = Word("".join(self.parts), self.began, literal=self.literal, quoted_start=self.quoted_start)
        self.parts = None
        if self.awaits_document:
            self.awaits_document = False
            self.documents.append(word.text)
        yield word

    def _skip_documents(self) -> None:
        """What is between C(<<END) and C(END) is text for some command."""
        for end in self.documents:
            while self.at < len(self.text):
                stop = self._find("\n")
                line = self.text[self.at : stop].strip("\t\r")
                self._forward(stop + 1 - self.at)
                if line == end:
                    break
        self.documents = []

    def _parts(self) -> t.List[str]:
        if self.parts is None:
            self.parts = []
        return self.parts

    def _take(self, begin: int, end: int, keep: bool = False) -> None:
        """Text up to C(end), whose character there is left out or kept."""
        self._parts().append(self.text[begin : end + 1 if keep else end])
        self._forward(end + 1 - self.at)

    def _find(self, what: str, begin: t.Optional[int] = None) -> int:
        found = self.text.find(what, self.at if begin is None else begin)
        return len(self.text) if found < 0 else found

    def _forward(self, count: int) -> None:
        self.line += self.text.count("\n", self.at, self.at + count)
        self.at += count


def words(text: str) -> t.Iterator[Word]:
    """Words and operators in their order, a line end among the operators; never raises."""
    return _Reader(text).read()
