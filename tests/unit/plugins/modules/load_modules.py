# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of the modules that load the GPUs share."""

from __future__ import annotations

import dataclasses
import types
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.kentino.gpu.plugins.doc_fragments import _checks, _load
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node, render


def on_node(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, speed: int = 400) -> Node:
    """From now on this process sees the simulated node, through nvidia-smi."""
    node = Node(folder, name)
    for key, value in render.environment(str(folder)).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("KENTINO_SIM_SPEED", str(speed))
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)
    return node


def options_of(module: types.ModuleType) -> t.Dict[str, t.Any]:
    """All documented options, those of the fragments among them."""
    own: t.Dict[str, t.Any] = yaml.safe_load(module.DOCUMENTATION)["options"]  # type: ignore[attr-defined]
    shared = [yaml.safe_load(text)["options"] for text in (_load.ModuleDocFragment.OPTIONS, _checks.ModuleDocFragment.GPU)]
    return {**shared[0], **shared[1], **own}


def defaults_of(options: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    return {name: option.get("default") for name, option in options.items()}


def plain(value: t.Any) -> t.Any:
    """A tuple as the list that Ansible has for it."""
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, t.Mapping) else value


def fields_of(options: t.Any, leave: t.Collection[str] = ()) -> t.Dict[str, t.Any]:
    names = [field.name for field in dataclasses.fields(options) if field.name not in leave]
    return {name: plain(getattr(options, name)) for name in names}
