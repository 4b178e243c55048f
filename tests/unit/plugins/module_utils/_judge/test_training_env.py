# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import training_env as judge
from ansible_collections.kentino.gpu.plugins.module_utils._judge.training_env import Dump, Expected, Place
from ansible_collections.kentino.gpu.plugins.module_utils._parse.training_env import Assignment

EXPECTED = Expected(
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "PYTORCH_ALLOC_CONF": "expandable_segments:True", "NCCL_IB_HCA": "mlx5_0"},
    "2.9.1",
    ("trainer.service",),
)
LATER = Place("/etc/profile.d/zz.sh", "login", True)
EARLIER = Place("/etc/profile.d/aa.sh", "login")
GIB = 1 << 30


def judged(place, name, value, how="set", expected=EXPECTED):
    return [
        (found.code.partition(".")[2], found.severity, found.subject.name)
        for found in judge.assignment(place, Assignment(name, value, 7, how), expected)
    ]


@pytest.mark.parametrize(
    ("name", "value", "version", "severity", "words"),
    [
        ("NCCL_ASYNC_ERROR_HANDLING", "1", "2.9.1", "warning", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("NCCL_ASYNC_ERROR_HANDLING", "1", None, "info", "its version is not known"),
        ("PYTORCH_CUDA_ALLOC_CONF", "x", "2.9.1", "warning", "since PyTorch 2.9; the new one is PYTORCH_ALLOC_CONF"),
        ("NCCL_LL_THRESHOLD", "0", None, "warning", "is read by no release any more since NCCL 2.5"),
        ("NCCL_LAUNCH_MODE", "GROUP", None, "warning", "NCCL_LAUNCH_MODE=GROUP is an old value"),
        ("NCCL_CHECKS_DISABLE", "1", None, "warning", "since NCCL 2.2.12"),
    ],
)
def test_old_name_is_found_with_its_place_and_the_new_name(name, value, version, severity, words):
    found = list(judge.assignment(LATER, Assignment(name, value, 7), dataclasses.replace(EXPECTED, torch_version=version)))
    assert [(one.code, one.severity, one.subject.label()) for one in found] == [
        ("training_env.deprecated", severity, "file /etc/profile.d/zz.sh:7")
    ]
    assert words in found[0].message
    assert found[0].evidence == ("%s=%s" % (name, value),)


def test_old_name_whose_new_one_the_profile_has_is_to_be_taken_out():
    found = next(judge.assignment(LATER, Assignment("NCCL_ASYNC_ERROR_HANDLING", "1", 7), EXPECTED))
    assert found.advice == "take it out of /etc/profile.d/zz.sh: the profile sets TORCH_NCCL_ASYNC_ERROR_HANDLING"
    found = next(judge.assignment(LATER, Assignment("NCCL_MAX_NCHANNELS", "8", 7), EXPECTED))
    assert found.advice == "write NCCL_MAX_CTAS in /etc/profile.d/zz.sh"


def test_old_name_is_right_for_an_old_version():
    old = dataclasses.replace(EXPECTED, torch_version="2.1.2")
    assert judged(LATER, "NCCL_ASYNC_ERROR_HANDLING", "1", expected=old) == []


def test_misspelt_name():
    assert judged(LATER, "NCCL_SOCKET_IFACE", "eth0") == [("misspelt", "warning", "/etc/profile.d/zz.sh:7")]
    assert judged(LATER, "NCCL_SOCKET_IFACE", None, "unset") == []


@pytest.mark.parametrize(
    ("name", "value", "severities"),
    [
        ("CUDA_LAUNCH_BLOCKING", "1", ["warning"]),
        ("CUDA_LAUNCH_BLOCKING", "0", []),
        ("NCCL_DEBUG", "TRACE", ["warning"]),
        ("NCCL_DEBUG", "INFO", ["info"]),
        ("NCCL_DEBUG", "WARN", []),
        ("NCCL_DEBUG", None, []),
        ("TORCH_NCCL_BLOCKING_WAIT", "1", ["warning"]),
        # Both of them are true of it.
        ("NCCL_BLOCKING_WAIT", "1", ["warning", "warning"]),
    ],
)
def test_what_was_left_over_from_a_search_for_a_fault(name, value, severities):
    assert [severity for _code, severity, _name in judged(LATER, name, value)] == severities


@pytest.mark.parametrize(
    ("place", "value", "how", "severity"),
    [
        (LATER, "mlx5_1", "set", "warning"),
        (LATER, None, "set", "warning"),
        (LATER, None, "unset", "warning"),
        (LATER, "mlx5_1", "default", "info"),
        (LATER, "mlx5_0", "set", None),
        (EARLIER, "mlx5_1", "set", "info"),
        (Place("/etc/environment", "session", kind="env"), "mlx5_1", "set", "warning"),
        (Place("/etc/nccl.conf", "nccl", kind="nccl_conf"), "mlx5_1", "set", "info"),
        (Place("/x/trainer.service", "unit", unit="trainer.service", kind="unit"), "mlx5_1", "set", "info"),
        (Place("/x/trainer.service", "unit", unit="trainer.service", kind="unit"), None, "unset", "warning"),
        (Place("/x/own.env", "unit", True, "trainer.service", "env"), "mlx5_1", "set", "warning"),
        (Place("/x/own.env", "unit", False, "trainer.service", "env"), "mlx5_1", "set", "info"),
        (Place("/x/own.env", "unit", True, "other.service", "env"), "mlx5_1", "set", None),
        (Place("/srv/job.sh", "given", True), "mlx5_1", "set", "warning"),
        (Place("python", "process", processes=8, kind="environ"), "mlx5_1", "set", None),
    ],
)
def test_another_value_is_a_conflict_where_it_wins(place, value, how, severity):
    expected = [] if severity is None else [("conflict", severity)]
    assert [found[:2] for found in judged(place, "NCCL_IB_HCA", value, how)] == expected


def test_conflict_says_both_values_and_the_cure():
    found = next(judge.assignment(LATER, Assignment("NCCL_IB_HCA", "mlx5_1", 7), EXPECTED))
    assert found.message == ("the profile says NCCL_IB_HCA=mlx5_0, and /etc/profile.d/zz.sh sets mlx5_1; that is read later and wins")
    assert "training_env_extra" in found.advice


def test_processes_are_counted():
    place = Place("python3", "process", processes=8, kind="environ")
    found = next(judge.assignment(place, Assignment("NCCL_ASYNC_ERROR_HANDLING", "1", 0), EXPECTED))
    assert (found.subject.label(), found.advice.startswith("take it out of 8 running python3")) == ("process python3", True)


def test_variables_of_other_business_are_left_alone():
    assert judged(LATER, "PATH", "/bin") == []
    assert judged(LATER, "NCCL_OFI_DISABLE_GDR", "1") == []


def own(found):
    return [(one.code, one.evidence) for one in judge.own_file("/p", found, {"A": "1", "B": "2"}, "login shells")]


def test_own_file_is_held_against_the_variables():
    assert own(None) == [("training_env.absent", ())]
    assert own([Assignment("A", "1", 1), Assignment("B", "2", 2)]) == []
    differs = own([Assignment("A", "3", 1), Assignment("C", "2", 2)])
    assert differs == [("training_env.differs", ("B is not set, 2 expected", "A is 3, 1 expected", "C is set and does not belong there"))]


def test_what_a_process_has():
    full = {**EXPECTED.variables, "HOME": "/root"}
    assert list(judge.effect("a shell", full, "", EXPECTED, [])) == []
    (found,) = judge.effect("a shell", {}, "su was not found", EXPECTED, [])
    assert found.verdict == "unknown"
    other = {**full, "NCCL_IB_HCA": "mlx5_1"}
    (found,) = judge.effect("a shell", other, "", EXPECTED, [])
    assert (found.verdict, found.evidence) == ("fail", ("NCCL_IB_HCA is mlx5_1, mlx5_0 expected",))
    conflict = next(judge.assignment(LATER, Assignment("NCCL_IB_HCA", "mlx5_1", 7), EXPECTED))
    (found,) = judge.effect("a shell", other, "", EXPECTED, [conflict])
    assert found.verdict == "warn"
    assert found.message.endswith("set in /etc/profile.d/zz.sh:7")
    (found,) = judge.effect("a shell", {"NCCL_IB_HCA": "mlx5_1"}, "", EXPECTED, [conflict])
    assert found.verdict == "fail"


@pytest.mark.parametrize(
    ("limit", "wanted", "ceiling", "rdma", "verdict"),
    [
        ("unlimited", "unlimited", "unlimited", True, None),
        ("8192", "4096", None, True, None),
        ("8192", "", None, True, None),
        (None, "unlimited", None, True, None),
        ("8192", "unlimited", "unlimited", True, "fail"),
        ("8192", "unlimited", "8192", False, "warn"),
        ("nonsense", "1", None, True, "fail"),
    ],
)
def test_limit_on_locked_memory(limit, wanted, ceiling, rdma, verdict):
    found = list(judge.memlock("a shell", limit, wanted, ceiling, rdma))
    assert [one.verdict for one in found] == ([] if verdict is None else [verdict])
    assert [one for one in found if ceiling == "8192" and "--ulimit memlock=-1" not in one.advice] == []


FOLDER = Dump("/d", True, "/d", 100 * GIB, False, 0o1777)


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({}, []),
        ({"free_bytes": GIB // 2}, ["dump_space fail"]),
        ({"free_bytes": 2 * GIB}, ["dump_space warn"]),
        ({"free_bytes": 20 * GIB}, []),
        ({"free_bytes": None, "problem": "hung"}, ["dump_space unknown"]),
        ({"read_only": True}, ["dump_space fail"]),
        ({"exists": False, "mode": None}, ["dump_path warn"]),
        ({"mode": 0o755}, ["dump_path fail"]),
        ({"mode": 0o2770}, []),
        ({"dumps": 8, "owners": ["alice"]}, ["dump_left warn"]),
    ],
)
def test_folder_for_dumps(changes, codes):
    found = judge.dump(dataclasses.replace(FOLDER, **changes), GIB, 8)
    assert ["%s %s" % (one.code.partition(".")[2], one.verdict) for one in found] == codes


def test_too_little_room_is_told_in_figures():
    (found,) = judge.dump(dataclasses.replace(FOLDER, free_bytes=GIB // 2), GIB, 8)
    assert found.message == (
        "the dumps of the flight recorder would not fit into /d: 512 MiB are free on /d, 1024 needed (1024 MiB for each dump of 8 ranks)"
    )


CARDS = ["10de:2684"] * 2  # RTX 4090
BOARDS = ["10de:2330"] * 8  # H100 SXM


@pytest.mark.parametrize(
    ("mode", "best", "gpus", "codes"),
    [
        ("measured", None, CARDS, ["p2p_unmeasured"]),
        ("measured", None, CARDS[:1], []),
        ("measured", None, BOARDS, []),
        ("measured", None, ["10de:ffff"] * 2, []),
        ("measured", "off", CARDS, []),
        ("default", "off", CARDS, ["p2p"]),
        ("PHB", "off", CARDS, ["p2p"]),
        ("off", "off", CARDS, []),
        ("default", None, CARDS, []),
    ],
)
def test_peer_to_peer_is_measured_not_guessed(mode, best, gpus, codes):
    assert [found.code.partition(".")[2] for found in judge.p2p(mode, best, "r1", gpus)] == codes


def test_shared_memory():
    assert list(judge.shm(None, 0)) == []
    assert list(judge.shm(GIB, GIB)) == []
    assert [found.verdict for found in (*judge.shm(GIB, 2 * GIB), *judge.shm(None, GIB))] == ["fail", "fail"]


def test_unknown_version_is_told():
    assert [found.verdict for found in judge.names_for_all(None)] == ["pass"]
    assert list(judge.names_for_all("2.9.1")) == []
