# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a program wrote to a terminal, a pipe or a pod's log, as plain lines. Private to kentino.gpu."""

from __future__ import annotations

import re

from .lazy_pattern import lazy

_ESCAPE = lazy(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")
# A colour whose escape character was lost on the way: "[36m", "[0m".
_BARE_COLOUR = lazy(r"\[[0-9]{1,2}(?:;[0-9]{1,3})*m(?!\])")
_LINE_END = lazy(r"\r\n|\r|\x0b|\x0c|\x85|\u2028|\u2029")
# What a launcher puts before every line, in this order.
_LABELS = (
    lazy(r"\[[0-9]+,[0-9]+\]<std(?:out|err|diag)>: ?", re.ASCII),  # mpirun --tag-output: "[1,0]<stdout>:#"
    lazy(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[+-][0-9]{2}:?[0-9]{2}) (?:std(?:out|err) [FP] )?"),  # kubectl logs --timestamps
    lazy(r" *[0-9]{1,5}: (?!Test )"),  # srun --label: "0:      1048576"
)


def clean(text: str) -> str:
    """C(text) without colours and NUL bytes, a carriage return being a line end like any other."""
    plain = _BARE_COLOUR.sub("", _ESCAPE.sub("", text)).replace("\x00", "")
    return _LINE_END.sub("\n", plain)


def without_label(line: str) -> str:
    """C(line) as the program itself wrote it, without the rank or time that a launcher put before it."""
    for label in _LABELS:
        found = label.match(line)
        if found:
            line = line[found.end() :]
    return line
