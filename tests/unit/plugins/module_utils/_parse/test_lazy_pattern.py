# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import lazy_pattern

PACKAGE = "ansible_collections.kentino.gpu.plugins.module_utils._parse"
ROOMS = sorted(path.stem for path in Path(lazy_pattern.__file__).parent.glob("*.py"))


def test_behaves_as_the_compiled_pattern():
    pattern = lazy_pattern.lazy(r"x(id) (\d+)", re.IGNORECASE)
    assert pattern.search("an XID 79").groups() == ("ID", "79")
    assert (pattern.pattern, pattern.sub("-", "xid 1 xid 2")) == (r"x(id) (\d+)", "- -")
    assert lazy_pattern.lazy(rb"a+").findall(b"aab a") == [b"aa", b"a"]


@pytest.mark.parametrize("room", ROOMS)
def test_every_pattern_of_the_parsers_compiles(room):
    module = importlib.import_module("%s.%s" % (PACKAGE, room))
    waiting = list(vars(module).values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, (tuple, list)):
            waiting += value
        elif isinstance(value, lazy_pattern._Lazy):
            assert value.pattern
