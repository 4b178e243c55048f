# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists as "-e name=a,b" gives them: the specification lets a word pass, and a word has letters where a list has items."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"


def evaluated(role: str, name: str, **variables: t.Any) -> t.Any:
    texts = yaml.safe_load((ROLES / role / "vars/main.yml").read_text())
    templates = {key: trust_as_template(text) for key, text in texts.items() if isinstance(text, str)}
    return Templar(loader=DataLoader(), variables={**texts, **templates, **variables}).template(templates[name])


@pytest.mark.parametrize("given", ["9.0,10.0", "9.0, 10.0", ["9.0", "10.0"], [9.0, 10.0]])
def test_capabilities(given):
    assert evaluated("cuda_build", "__cuda_build_capabilities", cuda_build_capabilities=given) == ["10.0", "9.0"]


def test_one_capability_is_a_number():
    assert evaluated("cuda_build", "__cuda_build_capabilities", cuda_build_capabilities=9.0) == ["9.0"]


@pytest.mark.parametrize("given", ["docker", ["docker"], "docker,podman"])
def test_engines(given):
    looked = {"results": [{"item": {"engine": name}, "stat": {"exists": True}} for name in ("docker", "containerd")]}
    found = evaluated("container_toolkit", "__container_toolkit_found", container_toolkit_engines=given, __container_toolkit_looked=looked)
    assert found == ["docker"]


@pytest.mark.parametrize("given", ["192.0.2.1,192.0.2.2", ["192.0.2.1", "192.0.2.2"]])
def test_nodes_of_an_nvlink_domain(given):
    assert evaluated("fabric_manager", "__fabric_manager_imex_nodes", fabric_manager_imex_nodes=given) == ["192.0.2.1", "192.0.2.2"]
