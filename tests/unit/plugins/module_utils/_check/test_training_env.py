# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import sys

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import training_env
from ansible_collections.kentino.gpu.plugins.module_utils._probe import training_env as probe


@pytest.fixture
def paths(tmp_path, monkeypatch):
    """Options for a node that holds nothing but what a test writes."""
    for name in ("files", "users_files", "unit_files", "processes"):
        monkeypatch.setattr(probe, name, lambda **_options: [])
    monkeypatch.setattr(probe, "gpu_ids", lambda: ["10de:2684"] * 4)
    monkeypatch.delenv("KENTINO_SIM_STATE", raising=False)
    (tmp_path / "dumps").mkdir()
    (tmp_path / "dumps").chmod(0o1777)
    return {
        "torch_version": "2.9.1",
        "dump_path": str(tmp_path / "dumps"),
        "preflight_path": str(tmp_path / "preflight"),
        "profile_path": str(tmp_path / "profile.sh"),
        "unit_environment_path": str(tmp_path / "training.env"),
        "container_environment_path": str(tmp_path / "container.env"),
    }


def written(options):
    """As the role writes it."""
    _check, facts = training_env.run(options)
    for path in (options.unit_environment_path, options.container_environment_path):
        with open(path, "w") as handle:
            handle.writelines("%s=%s\n" % pair for pair in facts["variables"].items())
    with open(options.profile_path, "w") as handle:
        handle.writelines("export %s='%s'\n" % pair for pair in facts["variables"].items())
    return options


def codes(options):
    return sorted(found.code.partition(".")[2] for found in training_env.run(options)[0].findings)


def test_node_without_the_profile_is_told_what_is_missing(paths):
    check, facts = training_env.run(training_env.Options(**paths))
    assert check.verdict == "warn"
    assert [file["state"] for file in facts["files"]] == ["absent"] * 3
    assert check.evidence.startswith("8 variables for PyTorch 2.9.1")


def test_node_with_the_profile_passes(paths):
    options = written(training_env.Options(**paths))
    check, facts = training_env.run(options)
    assert (check.verdict, {file["state"] for file in facts["files"]}) == ("pass", {"same"})
    assert facts["dump"]["needed_bytes"] == 4 * 20000 * 1024
    assert codes(options) == ["p2p_unmeasured"]


@pytest.mark.parametrize("path", ["profile_path", "unit_environment_path", "container_environment_path"])
def test_file_that_was_edited_is_named(paths, path):
    options = written(training_env.Options(**paths))
    with open(paths[path], "a") as handle:
        handle.write("\nNCCL_DEBUG=TRACE\n")
    check, _facts = training_env.run(options)
    assert [found.subject.name for found in check.findings if found.code == "training_env.differs"] == [paths[path]]


def test_settings_of_others_and_of_the_inventory_are_judged(paths, tmp_path):
    (tmp_path / "job.sh").write_text("export NCCL_ASYNC_ERROR_HANDLING=1 NCCL_SOCKET_IFACE=eth0\n")
    options = written(training_env.Options(**paths, paths=[str(tmp_path / "job.sh"), "/nowhere"], extra={"CUDA_LAUNCH_BLOCKING": 1}))
    assert codes(options) == ["deprecated", "leftover", "misspelt", "p2p_unmeasured", "unreadable"]
    check, facts = training_env.run(options)
    assert {found.subject.name for found in check.findings} >= {str(tmp_path / "job.sh") + ":1", "training_env_extra", "/nowhere"}
    assert facts["variables"]["CUDA_LAUNCH_BLOCKING"] == "1"


def test_values_of_yaml_become_text(paths):
    extra = {"NCCL_A": True, "NCCL_B": 5, "CUDA_DEVICE_ORDER": None}
    variables = training_env.run(training_env.Options(**paths, extra=extra))[1]["variables"]
    assert (variables["NCCL_A"], variables["NCCL_B"], "CUDA_DEVICE_ORDER" in variables) == ("1", "5", False)
    with pytest.raises(ValueError, match="expected text"):
        training_env.run(training_env.Options(**paths, extra={"NCCL_A": [1]}))


@pytest.mark.parametrize(
    ("p2p", "best", "expected"),
    [
        ("measured", "off", {"NCCL_P2P_DISABLE": "1"}),
        ("measured", "on", {}),
        ("measured", None, {}),
        ("default", "off", {}),
        ("off", None, {"NCCL_P2P_DISABLE": "1"}),
        ("PHB", "off", {"NCCL_P2P_LEVEL": "PHB"}),
    ],
)
def test_peer_to_peer_comes_from_the_measurement(paths, p2p, best, expected):
    environment = {"NCCL_P2P_DISABLE": "1"} if best == "off" else {}
    nccl = {"best_p2p": best, "best_environment": environment, "runs": [{"p2p": best, "works": True}]}
    result = {"facts": {"nccl": nccl}} if best else {}
    facts = training_env.run(training_env.Options(**paths, p2p=p2p, nccl_result=result))[1]
    assert {name: value for name, value in facts["variables"].items() if name.startswith("NCCL_P2P")} == expected
    assert facts["p2p"]["measured"] == best


def test_version_is_asked_of_the_python_that_is_named(paths):
    options = training_env.Options(**{**paths, "torch_version": ""}, torch_python=sys.executable)
    check, facts = training_env.run(options)
    if facts["torch_version"] is None:
        assert [found.verdict for found in check.findings if found.code == "training_env.torch"] == ["unknown"]
    else:
        assert facts["torch_source"] == sys.executable
    check, _facts = training_env.run(dataclasses.replace(options, torch_python="/nowhere/python"))
    assert check.verdict == "unknown"


def test_reader_that_fails_leaves_the_verdict_open(paths, monkeypatch):
    def broken():
        raise OSError("stale file handle")

    monkeypatch.setattr(probe, "users_files", broken)
    check, _facts = training_env.run(written(training_env.Options(**paths)))
    assert check.verdict == "unknown"
    assert [found.message for found in check.findings if found.code == "training_env.unreadable"] == [
        "the homes of the users could not be read: OSError: stale file handle"
    ]


def test_what_is_started_is_asked(paths, monkeypatch):
    options = written(training_env.Options(**paths, ask=("login_shell", "unit"), memlock="unlimited"))
    full = training_env.run(dataclasses.replace(options, ask=()))[1]["variables"]
    monkeypatch.setattr(probe, "login_shell", lambda *_: probe.Answer(full, memlock="unlimited"))
    monkeypatch.setattr(probe, "transient_unit", lambda *_: probe.Answer({}, memlock="unlimited"))
    check, facts = training_env.run(options)
    assert [(found.code, found.subject.name) for found in check.findings if found.verdict == "fail"] == [
        ("training_env.not_in_effect", "a transient unit")
    ]
    assert [asked["what"] for asked in facts["asked"]] == ["login_shell", "unit"]


@pytest.mark.parametrize("wrong", [{"p2p": "maybe"}, {"torch_version": "new"}, {"buffer_size": 0}])
def test_option_that_is_wrong(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        training_env.Options(**wrong)
