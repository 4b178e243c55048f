# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver packages of each system, as data: those that cannot be booted here as well."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml

VARS = Path(__file__).resolve().parents[3] / "roles/nvidia_driver/vars"
SYSTEMS = sorted(path.stem for path in VARS.glob("*.yml") if path.stem != "main")


def of(system: str, branch: str) -> t.Dict[str, t.Any]:
    """The variables of a system, rendered for a branch."""
    raw = yaml.safe_load((VARS / (system + ".yml")).read_text())
    known: t.Dict[str, t.Any] = {"nvidia_driver_branch": branch}
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)

    def render(value: t.Any) -> t.Any:
        if isinstance(value, dict):
            return {key: render(one) for key, one in value.items()}
        if isinstance(value, list):
            return [render(one) for one in value]
        return environment.from_string(value).render(known) if isinstance(value, str) else value

    for name, value in raw.items():
        known[name] = render(value)
    return known


def names(packages: t.Mapping[str, t.Any], flavour: str) -> t.List[str]:
    return [packages["library"], *packages["versioned"], *packages[flavour]]


def test_every_system_that_is_promised_has_its_data():
    assert SYSTEMS == ["debian-12", "debian-13", "redhat-10", "redhat-9", "ubuntu-22.04", "ubuntu-24.04"]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("branch", ["580", "590"])
def test_data_of_a_system_is_whole(system, branch):
    found = of(system, branch)
    assert set(found["__nvidia_driver_packages"]) == ({"nvidia"} if system.startswith("redhat") else {"nvidia", "distribution"})
    for packages in found["__nvidia_driver_packages"].values():
        assert set(packages) == {"library", "versioned", "others", "open", "proprietary"}
        assert packages["open"] != packages["proprietary"]
    assert found["__nvidia_driver_headers"].endswith("-")
    assert found["__nvidia_driver_initramfs"][0] in ("update-initramfs", "dracut")


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("branch", ["580", "590"])
def test_what_is_installed_is_held_and_seen(system, branch):
    main = yaml.safe_load((VARS / "main.yml").read_text())
    for packages in of(system, branch)["__nvidia_driver_packages"].values():
        for name in names(packages, "open") + names(packages, "proprietary"):
            assert re.match(main["__nvidia_driver_pattern"], name), name
            assert not re.match(main["__nvidia_driver_companions"], name), name


@pytest.mark.parametrize(
    "name", ["nvidia-fabricmanager-580", "nvidia-imex-580", "libnvidia-nscq-580", "nvidia-container-toolkit", "libnvidia-container1"]
)
def test_packages_of_other_roles_are_left_to_them(name):
    assert re.match(yaml.safe_load((VARS / "main.yml").read_text())["__nvidia_driver_companions"], name)


@pytest.mark.parametrize(
    ("system", "branch", "source", "flavour", "expected"),
    [
        ("debian-12", "580", "nvidia", "open", ["libnvidia-ml1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms"]),
        ("debian-13", "590", "nvidia", "proprietary", ["libnvidia-ml1", "nvidia-driver-cuda", "nvidia-kernel-dkms"]),
        ("debian-12", "535", "distribution", "open", ["libnvidia-ml1", "libcuda1", "nvidia-smi", "nvidia-open-kernel-dkms"]),
        (
            "ubuntu-22.04", "580", "nvidia", "open",
            ["libnvidia-compute-580", "nvidia-compute-utils-580", "nvidia-utils-580", "libnvidia-cfg1-580", "nvidia-dkms-580-open"],
        ),
        # With branch 590 NVIDIA took the branch out of the names.
        (
            "ubuntu-24.04", "590", "nvidia", "open",
            ["libnvidia-compute", "nvidia-compute-utils", "nvidia-utils", "libnvidia-cfg1", "nvidia-dkms-open"],
        ),
        (
            "ubuntu-24.04", "580", "distribution", "proprietary",
            ["libnvidia-compute-580-server", "nvidia-compute-utils-580-server", "nvidia-utils-580-server", "libnvidia-cfg1-580-server",
             "nvidia-dkms-580-server"],
        ),
        ("redhat-9", "580", "nvidia", "open", ["libnvidia-ml", "nvidia-driver-cuda", "nvidia-persistenced", "kmod-nvidia-open-dkms"]),
        ("redhat-10", "580", "nvidia", "proprietary",
         ["libnvidia-ml", "nvidia-driver-cuda", "nvidia-persistenced", "kmod-nvidia-latest-dkms"]),
    ],
)  # fmt: skip
def test_packages(system, branch, source, flavour, expected):
    assert names(of(system, branch)["__nvidia_driver_packages"][source], flavour) == expected


def test_branches_of_rhel_9_are_module_streams():
    assert of("redhat-9", "580")["__nvidia_driver_streams"] == {"open": "580-open", "proprietary": "580-dkms"}
    assert "__nvidia_driver_streams" not in of("redhat-10", "580")
