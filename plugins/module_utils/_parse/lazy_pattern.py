# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Regular expressions that are compiled when they are first used. Private to kentino.gpu.

A module runs anew on every node, and a log of a healthy node needs few of the parsers' patterns: compiling all of them took a
third of a health check's own time.
"""

from __future__ import annotations

import re
import typing as t

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn")


class _Lazy:
    def __init__(self, expression: t.Any, flags: int) -> None:
        self._arguments = (expression, flags)

    def __getattr__(self, name: str) -> t.Any:
        """Only reached until the first use: then the compiled pattern's own methods take this object's place."""
        compiled = re.compile(*self._arguments)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy(expression: t.AnyStr, flags: int = 0) -> t.Pattern[t.AnyStr]:
    """As C(re.compile), which is called at the first use; a faulty expression is only found then."""
    return t.cast("t.Pattern[t.AnyStr]", _Lazy(expression, flags))
