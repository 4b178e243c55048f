# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module file is documentation only; it is held against the action that does the work."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kentino.gpu.plugins.action.gate import _ARGUMENTS
from ansible_collections.kentino.gpu.plugins.module_utils._report.waiver import _FIELDS
from ansible_collections.kentino.gpu.plugins.modules import gate

OPTIONS = yaml.safe_load(gate.DOCUMENTATION)["options"]


@pytest.mark.parametrize("name", sorted({*OPTIONS, *_ARGUMENTS}))
def test_documented_options_are_the_options(name):
    documented, real = OPTIONS[name], _ARGUMENTS[name]
    assert documented.get("choices") == real.get("choices")
    if real["type"] != "raw":
        assert (documented["type"], documented.get("elements"), documented.get("default")) == (
            real["type"],
            real.get("elements"),
            real.get("default"),
        )


def test_documented_waivers_are_those_that_are_read():
    documented = OPTIONS["waivers"]["suboptions"]
    assert set(documented) == set(_FIELDS)
    assert {name for name, option in documented.items() if option.get("required")} == {"code", "subject", "reason", "until"}


@pytest.mark.parametrize("task", yaml.safe_load(gate.EXAMPLES), ids=lambda task: task["name"])
def test_examples_use_options_that_exist(task):
    assert set(task.get("kentino.gpu.gate", {})) <= set(_ARGUMENTS)
