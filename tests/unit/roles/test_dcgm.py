# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data of the roles fabric_manager, dcgm and dcgm_exporter, for the systems that are not booted in the tests."""

from __future__ import annotations

import importlib
import pathlib
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROLES = ROOT / "roles"


def load(path):
    return yaml.safe_load((ROLES / path).read_text())


@pytest.fixture(scope="module")
def exporter():
    sys.path.insert(0, str(ROOT / "tests/simulator"))
    try:
        return importlib.import_module("simnode.dcgm_exporter")
    finally:
        sys.path.pop(0)


def counters():
    data = load("dcgm_exporter/vars/counters.yml")
    return [field for group in [*data["__dcgm_exporter_groups"], data["__dcgm_exporter_profiling_group"]] for field in group["fields"]]


def test_exporter_knows_every_counter_and_can_read_the_file(exporter):
    """A name that it does not know, or a comma in a text, keeps it from starting."""
    known = {*exporter._FIELDS, *exporter._LABELS, *exporter._EXPORTER}
    assert not [field["field"] for field in counters() if field["field"] not in known]
    assert not [field["help"] for field in counters() if set(field["help"]) & set(',"\n')]
    assert {field["kind"] for field in counters()} == {"counter", "gauge", "label"}


def test_no_counter_is_there_twice():
    names = [field["field"] for field in counters()]
    assert len(names) == len(set(names))


def test_counters_that_the_defaults_leave_out_are_there():
    names = " ".join(field["field"] for field in counters())
    for word in (
        "VIOLATION",
        "EVENT_REASONS",
        "ECC_DBE_VOL",
        "ECC_DBE_AGG",
        "ROW_REMAP_PENDING",
        "RETIRED_PENDING",
        "XID_ERRORS_COUNT",
        "CRC",
    ):
        assert word in names


def test_proof_is_counted():
    assert set(load("dcgm_exporter/vars/main.yml")["__dcgm_exporter_proof"]) <= {field["field"] for field in counters()}


@pytest.mark.parametrize("system", ["debian", "ubuntu", "redhat"])
def test_fabric_manager_has_all_names_for_every_system(system):
    data = load("fabric_manager/vars/%s.yml" % system)
    for source, by_branch in data["__fabric_manager_packages"].items():
        assert set(by_branch) == {"580", "older"}, source
        for names in by_branch.values():
            assert set(names) == {"fabric_manager", "nvswitch", "nvlink5", "imex"}
    assert data["__fabric_manager_separator"] in ("=", "-")
    assert data["__fabric_manager_packages"]["nvidia"]["580"]["fabric_manager"] == "nvidia-fabricmanager"


def test_only_ubuntu_has_fabric_managers_of_its_own():
    assert [
        name
        for name in ("debian", "ubuntu", "redhat")
        if "distribution" in load("fabric_manager/vars/%s.yml" % name)["__fabric_manager_packages"]
    ] == ["ubuntu"]


def test_versions_of_dcgm_and_exporter_are_those_of_the_test_repository():
    tested = load("dcgm/vars/main.yml")["__dcgm_tested"]
    text = (ROOT / "tests/repository/sets/dcgm.py").read_text()
    assert '"%s"' % tested[4].split("-")[0] in text
    assert '"%s"' % tested[3] in text
    assert '"%s"' % load("dcgm_exporter/defaults/main.yml")["dcgm_exporter_version"].split("-")[0] in text


def test_nvlink_5_boards_get_what_their_switches_are_reached_with():
    data = load("fabric_manager/vars/main.yml")
    assert data["__fabric_manager_nvlink5_modules"] == ["mlx5_ib", "ib_umad"]
    assert data["__fabric_manager_nvlink5_packages"] == ["nvlsm", "infiniband-diags"]
