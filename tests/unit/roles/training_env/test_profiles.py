# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The three files of the role say the same to those who read them."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import training_env
from ansible_collections.kentino.gpu.plugins.module_utils._parse.training_env import parse
from hypothesis import given, settings
from hypothesis import strategies as st

ROLE = Path(__file__).resolve().parents[4] / "roles/training_env"
TEMPLATES = ("profile.sh.j2", "training.env.j2", "container.env.j2")
NAMES = st.from_regex(r"NCCL_[A-Z0-9_]{1,8}", fullmatch=True)
VALUES = st.text(alphabet="abAB09_./:,=^+@%- ", max_size=12).map(str.strip)


def rendered(template: str, variables: t.Mapping[str, str], **more: t.Any) -> str:
    # As Ansible sets it up: the line end behind a block goes.
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    values = {"training_env_dump_path": "/d", "training_env_memlock": "unlimited", **more}
    named = {"ansible_managed": "Ansible managed", "__training_env_unit_path": training_env.UNIT_ENVIRONMENT_PATH}
    text: str = environment.from_string((ROLE / "templates" / template).read_text()).render(
        __training_env_variables=variables, **named, **values
    )
    return text


def in_a_shell(text: str) -> t.Dict[str, str]:
    """What a shell that reads it hands on to what it starts."""
    done = subprocess.run(["sh", "-c", text + "exec env -0"], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"})
    pairs = [item.partition("=") for item in done.stdout.split("\0") if item]
    return {name: value for name, _equals, value in pairs if name not in ("PATH", "PWD", "OLDPWD", "SHLVL", "_")}


def in_a_container(text: str) -> t.Dict[str, str]:
    """As docker and podman read the file: what is behind the first equals sign, as it stands there."""
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    return {name: value for name, _equals, value in (line.partition("=") for line in lines)}


def in_a_unit(text: str) -> t.Dict[str, t.Optional[str]]:
    assert "\\" not in text
    return {item.name: item.value for item in parse(text, "env").assignments}


def said(variables: t.Mapping[str, str]) -> t.List[t.Mapping[str, t.Optional[str]]]:
    texts = [rendered(template, variables) for template in TEMPLATES]
    return [reader(text) for reader, text in zip((in_a_shell, in_a_unit, in_a_container), texts)]


@pytest.mark.parametrize("version", [None, "2.1.0", "2.7.1", "2.8.0", "2.9.1", "2.14.1"])
def test_shells_units_and_containers_are_told_the_same(version):
    variables = training_env.profile(version, more={"NCCL_SOCKET_IFNAME": "^=docker0,lo"}, extra={"NCCL_DEBUG": "", "NCCL_IB_HCA": None})
    assert said(variables) == [variables] * 3


@settings(deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_whatever_value_is_taken_reads_the_same_everywhere(extra):
    variables = training_env.profile("2.9.1", extra=extra)
    assert said(variables) == [variables] * 3


def test_drop_in_names_the_environment_file_and_the_limit():
    text = rendered("drop-in.conf.j2", {})
    assert "[Service]\nEnvironmentFile=/etc/kentino-gpu/training.env\nLimitMEMLOCK=infinity\n" in text
    assert "LimitMEMLOCK=4096K\n" in rendered("drop-in.conf.j2", {}, training_env_memlock="4096")
    assert "LimitMEMLOCK" not in rendered("drop-in.conf.j2", {}, training_env_memlock="")


def test_limits_are_for_users_and_root():
    assert rendered("limits.conf.j2", {}).splitlines()[-2:] == ["* - memlock unlimited", "root - memlock unlimited"]


def test_paths_of_the_role_are_those_that_the_module_looks_at():
    paths = yaml.safe_load((ROLE / "vars/main.yml").read_text())
    folder = paths["__training_env_folder"]
    assert paths["__training_env_profile_path"] == training_env.PROFILE_PATH
    assert paths["__training_env_unit_path"].replace("{{ __training_env_folder }}", folder) == training_env.UNIT_ENVIRONMENT_PATH
    assert paths["__training_env_container_path"].replace("{{ __training_env_folder }}", folder) == training_env.CONTAINER_ENVIRONMENT_PATH
    assert paths["__training_env_drop_in"] == training_env.DROP_IN


def test_defaults_of_the_role_are_those_of_the_module():
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    assert defaults["training_env_dump_path"] == training_env.DUMP_PATH
    assert defaults["training_env_flight_recorder_size"] == training_env.BUFFER_SIZE
    assert defaults["training_env_allocator"] == training_env.ALLOCATOR
    specs = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert tuple(specs["training_env_nccl_p2p"]["choices"]) == training_env.P2P
