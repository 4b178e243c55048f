# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job without PyTorch: what it records, and the faults it can be asked for. That it runs is shown in tests/dryrun."""

from __future__ import annotations

import json
import threading
import time
import types

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._probe import dryrun_job
from ansible_collections.kentino.gpu.plugins.module_utils._probe.dryrun_job import Fault, Job, Place, Records, read_faults


def _lines(folder, rank=0):
    return [json.loads(line) for line in (folder / ("rank_%d.jsonl" % rank)).read_text().splitlines()]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", ()),
        (" ; ", ()),
        ("die:rank=2,step=1", (Fault("die", 2, 1, "allreduce", 1.0),)),
        ("hang:rank=0,phase=build", (Fault("hang", 0, None, "build", 1.0),)),
        ("slow:rank=3,seconds=0.5; nan:rank=1,step=2", (Fault("slow", 3, None, "allreduce", 0.5), Fault("nan", 1, 2, "allreduce", 1.0))),
    ],
)
def test_faults(text, faults):
    assert read_faults(text) == faults


@pytest.mark.parametrize("text", ["die", "die:step=1", "explode:rank=1", "die:rank=one", "hang:rank=1,phase=lunch", "die:rank=1,step=x"])
def test_a_fault_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=r"KENTINO_DRYRUN_FAULT|invalid literal"):
        read_faults(text)


def test_a_phase_is_on_record_before_it_begins(tmp_path):
    records = Records(str(tmp_path), 0)
    records.enter("forward", 1)
    assert [(line["kind"], line["phase"], line["step"]) for line in _lines(tmp_path)] == [("phase", "forward", 1)]
    assert abs(_lines(tmp_path)[0]["usec"] / 1e6 - time.time()) < 60


def test_what_is_no_number_is_json_all_the_same(tmp_path):
    Records(str(tmp_path), 0).write("step", loss=float("nan"), parts=[1.0, float("inf"), -float("inf")], more={"x": float("nan")})
    text = (tmp_path / "rank_0.jsonl").read_text()
    line = json.loads(text, parse_constant=lambda word: pytest.fail("%s is no JSON" % word))
    assert (line["loss"], line["parts"], line["more"]) == ("nan", [1.0, "inf", "-inf"], {"x": "nan"})


def test_a_phase_that_lasts_is_told_once_with_its_stack(tmp_path):
    records = Records(str(tmp_path), 0)
    records.enter("backward", 2)
    threading.Thread(target=dryrun_job._watch, args=(records, 0.05), daemon=True).start()
    until = time.monotonic() + 60
    while not any(line["kind"] == "stuck" for line in _lines(tmp_path)) and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.1)
    (stuck,) = (line for line in _lines(tmp_path) if line["kind"] == "stuck")
    assert (stuck["phase"], stuck["step"]) == ("backward", 2)
    assert any("test_a_phase_that_lasts" in frame for frame in stuck["stack"])
    # It must not go on telling of the next tests.
    records.since = time.monotonic() + 3600


@pytest.mark.parametrize(
    ("visible", "properties", "identity"),
    [
        pytest.param(
            None,
            {"uuid": "0a1b", "pci_domain_id": 0, "pci_bus_id": 193, "pci_device_id": 0},
            (1, "GPU-0a1b", "0000:c1:00"),
            id="2.8 and newer",
        ),
        pytest.param(None, {"uuid": "GPU-0a1b"}, (1, "GPU-0a1b", None), id="2.4"),
        pytest.param(None, {}, (1, None, None), id="2.3"),
        pytest.param("4,6", {}, (6, None, None), id="chosen by index"),
        pytest.param("GPU-77,GPU-88", {}, (None, None, None), id="chosen by UUID"),
        pytest.param("4", {}, (None, None, None), id="fewer chosen than ranks"),
    ],
)
def test_the_gpu_is_named_as_well_as_this_pytorch_can(monkeypatch, visible, properties, identity):
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    job = Job({}, Place(1, 1, 2), types.SimpleNamespace(), ())
    found = types.SimpleNamespace(name="NVIDIA L40S", total_memory=48, **properties)
    job.torch = types.SimpleNamespace(cuda=types.SimpleNamespace(get_device_properties=lambda number: found))
    values = job._identity(1)
    assert (values["index"], values["uuid"], values["pci"]) == identity


@pytest.mark.parametrize(
    ("asked", "cuda", "capability", "dtype"),
    [
        ("auto", False, None, "float32"),
        ("auto", True, (9, 0), "bfloat16"),
        ("auto", True, (8, 0), "bfloat16"),
        ("auto", True, (7, 0), "float16"),
        ("float32", True, (9, 0), "float32"),
    ],
)
def test_the_precision_follows_the_card(asked, cuda, capability, dtype):
    job = Job({"dtype": asked}, Place(0, 0, 1), types.SimpleNamespace(), ())
    job.cuda = cuda
    job.torch = types.SimpleNamespace(cuda=types.SimpleNamespace(get_device_capability=lambda: capability))
    assert job._dtype() == dtype
