# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a module in this process, as Ansible would on a node."""

from __future__ import annotations

import json
import types
import typing as t

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args


def run(module: types.ModuleType, capsys: pytest.CaptureFixture[str], check_mode: bool = False, **options: t.Any) -> t.Dict[str, t.Any]:
    """What the module returns."""
    with patch_module_args({**options, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit):
        module.main()
    printed = capsys.readouterr()
    assert printed.err == ""
    result: t.Dict[str, t.Any] = json.loads(printed.out)
    return result


def documented(module: types.ModuleType) -> t.Dict[str, t.Any]:
    """The keys that its documentation says it returns."""
    found: t.Dict[str, t.Any] = yaml.safe_load(module.RETURN)  # type: ignore[attr-defined]
    return found


def is_as_documented(result: t.Mapping[str, t.Any], described: t.Mapping[str, t.Any], path: str = "") -> None:
    """Every key that is returned is described and of the type that it should have, and every one that is described is returned."""
    types_of = {"str": str, "dict": dict, "list": list, "bool": bool, "int": int}
    for key, entry in described.items():
        assert key in result, path + key
        value = result[key]
        assert value is None or isinstance(value, types_of[entry["type"]]), path + key
        if entry["type"] == "list" and "contains" in entry:
            for item in value:
                assert set(item) == set(entry["contains"]), path + key
                is_as_documented(item, entry["contains"], path + key + ".")
