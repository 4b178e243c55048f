# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleTypeError
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import NODE, Check, Finding, report
from ansible_collections.kentino.gpu.plugins.test.healthy import healthy
from jinja2 import StrictUndefined

GOOD = report([Check("gpu", "8 GPUs"), Check("kernel_log", "", skipped="not asked for")])
WARNED = report([Check("gpu", "8 GPUs", (Finding("gpu.x", "warning", NODE, "slow"),))])
FAILED = report([Check("gpu", "8 GPUs", (Finding("gpu.x", "critical", NODE, "dead"),))])
NOTHING = StrictUndefined()


@pytest.mark.parametrize(
    ("result", "options", "is_healthy"),
    [
        pytest.param(GOOD, {}, True, id="pass"),
        pytest.param(WARNED, {}, False, id="warning"),
        pytest.param(WARNED, {"worst": "warn"}, True, id="warning, accepted"),
        pytest.param(FAILED, {"worst": "warn"}, False, id="fault"),
        pytest.param(GOOD, {"required": ["gpu"]}, True, id="required and there"),
        pytest.param(GOOD, {"required": "gpu"}, True, id="one name needs no list"),
        pytest.param(GOOD, {"required": ["gpu", "kernel_log"]}, False, id="required and skipped"),
        pytest.param([GOOD, GOOD], {}, True, id="several"),
        pytest.param([GOOD, None], {}, False, id="several, one of them nothing"),
        pytest.param({**GOOD, "failed": True}, {}, False, id="failed task"),
        pytest.param(None, {}, False, id="null"),
        pytest.param("pass", {}, False, id="text"),
        pytest.param({"verdict": "pass"}, {}, False, id="bare verdict"),
    ],
)
def test_healthy(result, options, is_healthy):
    assert healthy(result, **options) is is_healthy


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"worst": "fail"}, "worst must be one of pass, warn, got 'fail'"),
        ({"worst": None}, "worst must be one of pass, warn, got None"),
        ({"worst": ["pass"]}, "got list"),
        ({"required": 3}, "required must be a list of names of checks, got 3"),
        ({"required": ["gpu", None]}, "required must be a list"),
        ({"required": ""}, "required must be a list"),
    ],
)
def test_wrong_arguments_are_errors(options, said):
    with pytest.raises(AnsibleTypeError, match=said):
        healthy(GOOD, **options)


@pytest.mark.parametrize("result", [NOTHING, [GOOD, NOTHING], {**GOOD, "checks": NOTHING}], ids=["variable", "item", "key"])
def test_undefined_is_not_healthy(result):
    assert healthy.accept_args_markers
    assert healthy(result) is False
