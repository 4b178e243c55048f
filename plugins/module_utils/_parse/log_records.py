# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Puts records that stretch over several lines together: journal export, json-pretty, dmesg -J. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t

from . import log_json, log_shape
from .lazy_pattern import lazy
from .log_envelope import RAW_CHARACTERS
from .log_json import Opened

_EXPORT_FIRST = lazy(r"__(?:CURSOR|REALTIME_TIMESTAMP)=")
_EXPORT_FIELD = lazy(r"([A-Z_][A-Z0-9_]{0,63})=", re.ASCII)
_EXPORT_BINARY = lazy(r"[A-Z_][A-Z0-9_]{0,63}$", re.ASCII)
_JSON_FIELD = lazy(r"\s{0,40}\"([A-Za-z_@][A-Za-z0-9_@]{0,63})\"\s{0,8}:\s{0,8}", re.ASCII)

_LIST_ITEM = lazy(r"[\d,\s]+$", re.ASCII)

_LENGTH_BYTES = 8
# No message is longer; a larger length is one that a paste or a conversion has spoilt.
_MAX_BINARY_BYTES = 1 << 24
_MAX_LIST_LINES = 1 << 20


class Assembler:
    """Fed with the lines of a text, it keeps those that are parts of a record and gives the record when it is complete."""

    def __init__(self) -> None:
        self.ready: t.List[Opened] = []
        self._export: t.Optional[t.Dict[str, t.Any]] = None
        self._fields: t.Dict[str, t.Any] = {}
        self._raw = ""
        self._binary: t.Optional[t.Tuple[str, bytearray]] = None
        self._list: t.Optional[t.List[str]] = None  # of MESSAGE, a number on each line

    @property
    def under_way(self) -> bool:
        """Whether the next line may belong to a record of which parts were seen."""
        return self._export is not None or bool(self._fields)

    @property
    def in_data(self) -> bool:
        """Whether the next line is data whatever it looks like."""
        return self._binary is not None or self._list is not None

    def data_line(self, raw: log_shape.Text) -> None:
        """A line inside a list of numbers, or a binary field: eight bytes of length, little end first, then so many bytes."""
        if self._list is not None:
            self._list_line(raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw)
            return
        if self._binary is None:
            return
        name, data = self._binary
        if isinstance(raw, str):
            # Decoding has changed the number of bytes: the length says nothing any more.
            self._end_binary(name, raw[_LENGTH_BYTES:] if not data else raw)
            return
        data += raw + b"\n"
        size = int.from_bytes(data[:_LENGTH_BYTES], "little")
        if len(data) < _LENGTH_BYTES:
            return
        if size > _MAX_BINARY_BYTES:
            self._end_binary(name, None)
        elif len(data) > _LENGTH_BYTES + size:
            self._end_binary(name, data[_LENGTH_BYTES : _LENGTH_BYTES + size].decode("utf-8", "replace"))

    def _end_binary(self, name: str, value: t.Optional[str]) -> None:
        """The value; None where it is cut off: half a message could name another Xid."""
        self._binary = None
        if self._export is not None:
            self._export[name] = value
            self._raw = (value or "")[:RAW_CHARACTERS] if name == "MESSAGE" else self._raw

    def take(self, text: str) -> bool:
        """Whether the line is part of such a record."""
        if self._export is not None and self._export_line(text):
            return True
        if _EXPORT_FIRST.match(text):
            self._export = {}
            return self._export_line(text)
        return self._json_line(text)

    def _export_line(self, text: str) -> bool:
        if self._export is None:
            return False
        match = _EXPORT_FIELD.match(text)
        if match:
            name = match.group(1)
            if name in self._export and name.startswith("__"):
                self.flush()
                self._export = {}
            self._export[name] = text[match.end() :]
            if name == "MESSAGE":
                self._raw = text[:RAW_CHARACTERS]
            return True
        if _EXPORT_BINARY.match(text):
            self._binary = (text, bytearray())
            return True
        self.flush()
        return not text.strip()

    def _json_line(self, text: str) -> bool:
        stripped = text.strip()
        if self._fields and stripped[:1] == "}":
            self.flush()
            return True
        match = _JSON_FIELD.match(text)
        if not match:
            return False
        name, value = match.group(1), text[match.end() :].strip()
        if value.endswith(","):
            value = value[:-1]
        if name in self._fields:
            self.flush()
        if value == "[" and name == "MESSAGE":
            self._list = []
        elif value not in ("[", "{"):
            loaded = log_json.load(value)
            if loaded is None and value != "null":
                return False  # cut off, or not JSON: to be read as it stands
            self._fields[name] = loaded
            if isinstance(loaded, str) and (not self._raw or log_shape.wanted(loaded)):
                self._raw = text[:RAW_CHARACTERS]
        return True

    def _list_line(self, text: str) -> None:
        if self._list is None:
            return
        stripped = text.strip()
        if _LIST_ITEM.match(stripped) and len(self._list) < _MAX_LIST_LINES:
            self._list.append(stripped)
            return
        self._fields["MESSAGE"] = log_json.load("[%s]" % "".join(self._list).rstrip(",")) if stripped[:1] == "]" else None
        self._list = None
        if stripped[:1] == "}":
            self.flush()

    def flush(self) -> None:
        """The record at hand is complete, or nothing more comes."""
        if self._binary is not None:
            self._end_binary(self._binary[0], None)
        if self._list is not None:
            self._fields["MESSAGE"], self._list = None, None
        if self._export is not None and "MESSAGE" in self._export:
            self.ready.append(log_json.open_journal(self._export, self._raw))
        if self._fields:
            self.ready.append(log_json.open_value(self._fields, self._raw, log_shape.wanted))
        self._export, self._fields, self._raw = None, {}, ""
