# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import cuda_errors
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import ACTIONS


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "reset_gpu"),
        ("CUDA error: no kernel image is available for execution on the device", "look_at_code"),
        ("Error 802: system not yet initialized", "look_at_code"),
        ("CUDA error: GPU is lost", "reseat"),
        ("CUDA error: something that is new", "reset_gpu"),
        ("The NVIDIA driver on your system is too old (found version 11040).", "look_at_code"),
    ],
)
def test_errors_of_a_device(text, action):
    found = cuda_errors.error(text)
    assert found is not None
    assert (found[0], bool(found[1])) == (action, True)


@pytest.mark.parametrize(
    "text", ["", "Connection closed by peer", "Watchdog caught collective operation timeout", "list index out of range"]
)
def test_what_is_no_error_of_a_device(text):
    assert cuda_errors.error(text) is None


@pytest.mark.parametrize("name", ["SIGKILL", "SIGBUS", "SIGSEGV", "SIGTERM", "signal 40", None])
def test_every_signal_has_an_action_and_advice(name):
    action, advice = cuda_errors.signalled(name)
    assert action in ACTIONS
    assert advice
