# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kentino.gpu.plugins.action import preflight_baseline as baseline_action
from ansible_collections.kentino.gpu.plugins.action import preflight_progress as progress_action
from ansible_collections.kentino.gpu.plugins.action import preflight_table as table_action
from ansible_collections.kentino.gpu.plugins.modules import preflight_baseline, preflight_progress, preflight_table

PAIRS = ((preflight_baseline, baseline_action), (preflight_progress, progress_action), (preflight_table, table_action))
IDS = ["baseline", "progress", "table"]


@pytest.mark.parametrize(("documented", "action"), PAIRS, ids=IDS)
def test_documented_options_are_the_options(documented, action):
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    assert set(options) == set(action._ARGUMENTS)
    for name, real in action._ARGUMENTS.items():
        for key in ("type", "choices", "default", "required"):
            assert options[name].get(key) == real.get(key), (name, key)


@pytest.mark.parametrize(("documented", "action"), PAIRS, ids=IDS)
def test_examples_use_options_that_exist(documented, action):
    for task in yaml.safe_load(documented.EXAMPLES):
        own = "kentino.gpu." + documented.__name__.rsplit(".", 1)[-1]
        assert set(task.get(own, {})) <= set(action._ARGUMENTS)
