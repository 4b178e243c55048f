# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import training_env_names as names
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import SEVERITIES


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NCCL_SOCKET_IFACE", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_P2P_DISABLED", "NCCL_P2P_DISABLE"),
        ("NCCL_DISABLE_P2P", "NCCL_P2P_DISABLE"),
        ("TORCH_NCCL_P2P_DISABLE", "NCCL_P2P_DISABLE"),
        ("NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT"),
        ("NCCL_ENABLE_MONITORING", "TORCH_NCCL_ENABLE_MONITORING"),
        ("NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLNG", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("TORCH_NCCL_ASYNC_ERR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("CUDA_DEVICES_ORDER", "CUDA_DEVICE_ORDER"),
        ("PYTORCH_CUDA_ALLOC_CONFIG", "PYTORCH_CUDA_ALLOC_CONF"),
        # Right, old, of somebody else, or of no business of ours.
        ("NCCL_SOCKET_IFNAME", None),
        ("NCCL_ASYNC_ERROR_HANDLING", None),
        ("NCCL_OFI_DISABLE_GDR", None),
        ("NCCL_NET_PLUGIN_OF_SOMEBODY", None),
        ("CUDA_HOME", None),
        ("CUDA_PATH", None),
        ("TORCH_HOME", None),
        ("PATH", None),
    ],
)
def test_misspelt_name(name, meant):
    assert names.meant(name) == meant


def test_no_name_that_is_read_is_taken_for_a_mistake():
    assert len(names.KNOWN) > 250
    assert not [name for name in names.KNOWN if names.meant(name)]
    assert {entry.name for entry in names.LEFTOVERS} <= names.KNOWN | {entry.name for entry in names.DEPRECATED}


@pytest.mark.parametrize(
    ("name", "value", "version", "applies"),
    [
        ("NCCL_ASYNC_ERROR_HANDLING", "1", "2.1.2", False),
        ("NCCL_ASYNC_ERROR_HANDLING", "1", "2.2.0", True),
        ("NCCL_ASYNC_ERROR_HANDLING", "1", None, None),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "1", "2.7.1", False),
        ("TORCH_NCCL_TRACE_BUFFER_SIZE", "1", "2.8.0", True),
        ("PYTORCH_CUDA_ALLOC_CONF", "x", "2.8.0", False),
        ("PYTORCH_CUDA_ALLOC_CONF", "x", "2.9.1", True),
        ("PYTORCH_CUDA_ALLOC_CONF", "x", "", None),
        ("NCCL_LAUNCH_MODE", "GROUP", None, True),
        ("NCCL_LAUNCH_MODE", "PARALLEL", None, False),
        ("NCCL_MAX_NCHANNELS", "8", None, True),
    ],
)
def test_old_name_is_old_from_a_version_on(name, value, version, applies):
    assert names.deprecated(name).applies(version, value) is applies


def test_replacements_are_names_that_are_read():
    for entry in names.DEPRECATED:
        word = entry.replacement.partition("=")[0].partition(",")[0]
        assert not word or word in names.KNOWN, entry
        assert not entry.torch or entry.since == "PyTorch %d.%d" % entry.torch
        assert entry.source
    assert all(entry.severity in SEVERITIES and entry.values for entry in names.LEFTOVERS)
