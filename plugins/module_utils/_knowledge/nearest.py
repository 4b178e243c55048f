# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What somebody probably meant who wrote a name that is not known. Private to kentino.gpu."""

from __future__ import annotations

import typing as t


def hint(name: t.Any, known: t.Iterable[str]) -> str:
    """C(did you mean 'count'?), or all names where none comes near."""
    import difflib

    names = list(known)
    near = difflib.get_close_matches(str(name), names, 1)
    return "did you mean '%s'?" % near[0] if near else "use one of: %s" % ", ".join(names)
