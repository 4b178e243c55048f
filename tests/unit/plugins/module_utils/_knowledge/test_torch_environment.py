# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import torch_environment


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.13.0+cpu", (2, 13, 0)),
        ("2.9.0a0+50eac811a6.nv25.09", (2, 9, 0)),
        ("2.2", (2, 2, 0)),
        ("unknown", ()),
        ("", ()),
        (None, ()),
    ],
)
def test_versions(text, version):
    assert torch_environment.version(text) == version


@pytest.mark.parametrize(
    ("version", "buffer", "dump"),
    [
        ("2.2.0", "TORCH_NCCL_TRACE_BUFFER_SIZE", None),
        ("2.7.1", "TORCH_NCCL_TRACE_BUFFER_SIZE", None),
        ("2.8.0", "TORCH_FR_BUFFER_SIZE", None),
        ("2.9.1", "TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"),
        ("2.14.1", "TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"),
        # The old name still works everywhere.
        (None, "TORCH_NCCL_TRACE_BUFFER_SIZE", None),
    ],
)
def test_the_flight_recorder_has_the_names_of_the_version(version, buffer, dump):
    variables = torch_environment.hang_variables(version, "/tmp/x_")
    assert [name for name in variables if name.endswith("BUFFER_SIZE")] == [buffer]
    assert {name for name in variables if variables[name] == "/tmp/x_"} == {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", dump} - {None}
    assert variables["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "1"
    assert "NCCL_ASYNC_ERROR_HANDLING" not in variables


def test_before_2_2_the_variables_have_no_prefix():
    assert torch_environment.hang_variables("2.1.2", "/tmp/x_") == {"NCCL_ASYNC_ERROR_HANDLING": "1"}
