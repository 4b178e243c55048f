# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wiring of the dry run, with a Python that only plays PyTorch. The real one is run in tests/dryrun."""

from __future__ import annotations

import json
import os
import time

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import dryrun, under_load
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import Gpu, GpuProcess, GpuReading
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check import fake_torch


def _gpu(number, **more):
    known = {"uuid": "GPU-%d" % number, "serial": "S%d" % number, "name": "NVIDIA H100", "state": "ok", "processes": ()}
    return Gpu(**{"index": number, "pci": "0000:0%d:00" % (number + 1), **known, **more})


def _node(monkeypatch, *gpus, **more):
    reading = GpuReading("nvml", gpus=gpus, complete=bool(gpus), attached=len(gpus), **more)
    monkeypatch.setattr(under_load.gpu_check, "read", lambda source="auto", deadline_seconds=20: reading)


def _options(python, **more):
    small = {"steps": 2, "width": 8, "heads": 2, "layers": 1, "vocabulary": 8, "sequence_length": 4}
    known = {"python": python, "timeout_seconds": 1.0, "run_seconds": 20.0, "kernel_log_source": "none", "sample_seconds": 60.0}
    return dryrun.Options(**{**small, **known, **more})


def _saw(tmp_path):
    return json.loads((tmp_path / "saw.json").read_text())


def test_a_node_that_is_whole_passes(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch)
    _node(monkeypatch, _gpu(0), _gpu(1))
    monkeypatch.setenv("PET_NNODES", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    check, facts = dryrun.run(_options(python, progress_path=str(tmp_path / "progress.json")))
    assert (check.verdict, [finding.code for finding in check.findings]) == ("pass", [])
    assert "2 ranks on cuda" in check.evidence
    saw = _saw(tmp_path)
    assert saw["argv"][1:8] == [
        *("-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2", "--max-restarts=0"),
        *("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"),
    ]
    assert saw["environment"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert saw["environment"]["OMP_NUM_THREADS"] == "1"
    assert saw["environment"]["TORCH_FR_BUFFER_SIZE"] == "2000"
    assert not {"PET_NNODES", "CUDA_VISIBLE_DEVICES"} & set(saw["environment"])
    assert saw["spec"]["timeout_seconds"] == 1.0
    assert not os.path.exists(os.path.dirname(saw["argv"][-1]))
    assert (facts["torch_version"], facts["cuda_version"], facts["exit_status"]) == ("2.9.1", "12.8", 0)
    assert [rank["gpu"]["serial"] for rank in facts["ranks"]] == ["S0", "S1"]
    json.dumps(facts, allow_nan=False)
    progress = json.loads((tmp_path / "progress.json").read_text())
    assert (progress["step"], progress["state"], progress["percent"], progress["errors"]) == ("dryrun", "finished", 100.0, 0)


def test_chosen_gpus_are_named_by_what_they_are(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch, "uuid")
    # PyTorch counts what it sees: its GPU 0 is the node's GPU 2, and says so by its UUID.
    _node(monkeypatch, _gpu(0, uuid="GPU-8"), _gpu(1, uuid="GPU-9"), _gpu(2, uuid="GPU-0"), _gpu(3, uuid="GPU-1"))
    check, facts = dryrun.run(_options(python, gpus=[2, 3]))
    assert check.verdict == "pass"
    assert _saw(tmp_path)["environment"]["CUDA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
    assert [rank["gpu"]["index"] for rank in facts["ranks"]] == [2, 3]


def test_a_dead_rank_is_named_with_its_card(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch, "dead")
    _node(monkeypatch, *(_gpu(number) for number in range(3)))
    check, facts = dryrun.run(_options(python))
    assert check.verdict == "fail"
    died = [finding for finding in check.findings if finding.code == "dryrun.rank_died"]
    assert [(finding.subject.index, finding.subject.serial) for finding in died] == [(1, "S1")]
    assert facts["ranks"][1]["last_phase"] == "backward of step 1"
    assert facts["ranks"][1]["signal"] == "SIGKILL"


def test_a_run_that_hangs_is_ended_in_time_and_nothing_is_left(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch, "hang orphan")
    _node(monkeypatch, *(_gpu(number) for number in range(3)))
    begin = time.monotonic()
    check, facts = dryrun.run(_options(python, run_seconds=2.0))
    assert time.monotonic() - begin < 60
    assert check.verdict == "fail"
    assert [(finding.code, finding.verdict) for finding in check.findings] == [("dryrun.rank_hung", "fail"), ("tool.timeout", "unknown")]
    assert check.findings[0].subject.index == 1
    assert "torchrun had not ended after" in check.findings[1].message
    assert facts["outcome"] == "timeout"
    pid = facts["ranks"][0]["pid"]
    assert not os.path.exists("/proc/%d" % pid)


def test_a_bad_status_after_a_clean_run_is_no_pass(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch)
    monkeypatch.setenv("FAKE_STATUS", "3")
    _node(monkeypatch)
    check, _facts = dryrun.run(_options(python, device="cpu", ranks=2))
    assert [(finding.code, check.verdict) for finding in check.findings] == [("dryrun.exit_status", "unknown")]


def test_without_a_gpu_the_cpu_is_asked_for_by_name(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch)
    _node(monkeypatch, error_kind="no_devices", error="no devices")
    check, facts = dryrun.run(_options(python))
    assert check.verdict != "pass"
    assert "dryrun.busy" in [finding.code for finding in check.findings]
    assert facts["outcome"] == "not_run"
    check, facts = dryrun.run(_options(python, device="cpu", ranks=3))
    assert (check.verdict, len(facts["ranks"]), facts["device"]) == ("pass", 3, "cpu")


def test_gpus_in_use_are_not_touched(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch)
    _node(monkeypatch, _gpu(0), _gpu(1, processes=(GpuProcess(4711, "/usr/bin/python3"),)))
    check, facts = dryrun.run(_options(python))
    assert [(finding.code, finding.verdict, finding.subject.index) for finding in check.findings] == [("dryrun.busy", "fail", 1)]
    assert "4711" in check.findings[0].message
    assert facts["outcome"] == "not_run"
    assert not (tmp_path / "saw.json").exists()


@pytest.mark.parametrize(("version", "words"), [("1.13.1", "has PyTorch 1.13.1"), ("", "was not found")])
def test_no_pytorch_is_a_finding_that_names_the_package(tmp_path, monkeypatch, version, words):
    python = fake_torch.make(tmp_path, monkeypatch) if version else "no_such_python"
    monkeypatch.setenv("FAKE_TORCH", version)
    _node(monkeypatch)
    check, _facts = dryrun.run(_options(python, device="cpu", ranks=2))
    (finding,) = check.findings
    assert (finding.code, check.verdict) == ("tool.missing", "unknown")
    assert words in finding.message
    assert "package torch" in finding.message + finding.advice


def test_the_first_python_that_has_pytorch_is_taken(tmp_path, monkeypatch):
    good = fake_torch.make(tmp_path, monkeypatch)
    bare = tmp_path / "bare" / "python3"
    bare.parent.mkdir()
    bare.write_text("#!/bin/sh\necho '{\"torch\": null}'\n")
    bare.chmod(0o755)
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "python3").symlink_to(good)
    monkeypatch.setenv("PATH", "%s:%s" % (bare.parent, tmp_path / "good"))
    _node(monkeypatch)
    check, facts = dryrun.run(_options(None, device="cpu", ranks=1))
    assert (check.verdict, facts["python"]) == ("pass", str(tmp_path / "good" / "python3"))


def test_a_drill_is_no_proof(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch)
    _node(monkeypatch)
    monkeypatch.setenv("KENTINO_DRYRUN_FAULT", "slow:rank=0,seconds=0")
    check, _facts = dryrun.run(_options(python, device="cpu", ranks=2))
    assert [(finding.code, check.verdict) for finding in check.findings] == [("dryrun.drill", "unknown")]


def test_a_drill_that_would_do_nothing_is_refused(monkeypatch):
    monkeypatch.setenv("KENTINO_DRYRUN_FAULT", "sloow:rank=0")
    with pytest.raises(ValueError, match="KENTINO_DRYRUN_FAULT"):
        dryrun.run(_options("python3", device="cpu", ranks=2))


def test_simulated_gpus_make_a_simulated_result_and_results_are_kept_where_that_is_asked_for(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch)
    _node(monkeypatch, _gpu(0), simulated=True)
    _check, facts = dryrun.run(_options(python, results_path=str(tmp_path / "kept")))
    assert facts["simulated"]
    assert os.path.exists(os.path.join(facts["results_path"], "rank_0.jsonl"))


def test_limits_of_other_checks_and_of_this_one_share_a_table(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch)
    _node(monkeypatch)
    limits = {"temperature_c": 80, "dryrun_slow_tolerance_pct": 30}
    assert dryrun.run(_options(python, device="cpu", ranks=1, limits=limits))[0].verdict == "pass"
    with pytest.raises(ValueError, match="temperature_x"):
        dryrun.run(_options(python, device="cpu", ranks=1, limits={"temperature_x": 80}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"width": 10, "heads": 4}, "4 heads do not divide"),
        ({"ranks": 0}, "ranks is 0"),
        ({"device": "cpu", "ranks": None}, "ranks is missing"),
        ({"vocabulary": 1}, "vocabulary is 1"),
        ({"timeout_seconds": 600.0, "run_seconds": 600.0}, "longer"),
        ({"timeout_seconds": 0.0}, "timeout_seconds is 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        _options("python3", **changes)


def test_check_mode_says_what_it_would_run(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch)
    check, facts = dryrun.plan(_options(python, gpus=[0, 2]))
    assert check.verdict == "skip"
    assert "--nproc-per-node=2" in check.skipped
    assert facts["argv"][0] == python
    assert not (tmp_path / "saw.json").exists()


def test_a_launcher_that_does_not_end_the_rest_is_ended(tmp_path, monkeypatch):
    python = fake_torch.make(tmp_path, monkeypatch, "dead hang")
    _node(monkeypatch)
    monkeypatch.setattr(dryrun, "_LAST_SECONDS", 0.3)
    monkeypatch.setattr(under_load, "_TICK_SECONDS", 0.2)
    begin = time.monotonic()
    check, facts = dryrun.run(_options(python, device="cpu", ranks=3))
    assert time.monotonic() - begin < 120
    assert (facts["outcome"], check.verdict) == ("stopped", "fail")
