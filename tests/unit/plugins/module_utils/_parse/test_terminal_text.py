# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.terminal_text import clean, without_label


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        pytest.param("a\r\nb\rc\n", "a\nb\nc\n", id="every kind of line end"),
        pytest.param("\x1b[1;31mred\x1b[0m \x1b[Kend", "red end", id="colours and erase"),
        pytest.param("[36mcyan[0m and [0x0a] stays", "cyan and [0x0a] stays", id="colour without its escape character"),
        pytest.param("a\x00b", "ab", id="NUL"),
    ],
)
def test_clean(text, plain):
    assert clean(text) == plain


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        pytest.param("[1,0]<stdout>:#  Rank  0", "#  Rank  0", id="mpirun --tag-output"),
        pytest.param("0:     1048576  262144", "    1048576  262144", id="srun --label"),
        pytest.param("2026-01-02T03:04:05.678901234Z # nThread 1", "# nThread 1", id="kubectl logs --timestamps"),
        pytest.param("2026-01-02T03:04:05.6+01:00 stdout F # nThread 1", "# nThread 1", id="file of a container runtime"),
        pytest.param("0123: Test NCCL failure common.cu:1 'x'", "0123: Test NCCL failure common.cu:1 'x'", id="host of digits is no label"),
        pytest.param("        8             2     float", "        8             2     float", id="row"),
    ],
)
def test_without_label(line, plain):
    assert without_label(line) == plain
