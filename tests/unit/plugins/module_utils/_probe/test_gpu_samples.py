# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import select
import time
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import nvidia_smi, nvml
from ansible_collections.kentino.gpu.plugins.module_utils._probe import gpu_samples
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node


def take(source: str, number: int, interval: float = 0.1, seconds: float = 10) -> t.List[t.Dict[str, t.Any]]:
    """So many samples, with the time when each of them came."""
    sampler = gpu_samples.Sampler(interval, source)
    samples: t.List[t.Dict[str, t.Any]] = []
    begin = time.monotonic()
    try:
        while len(samples) < number and time.monotonic() < begin + seconds:
            if select.select([sampler.descriptor], [], [], 0.5)[0]:
                samples += [dict(sample, came=time.monotonic() - begin) for sample in sampler.feed(os.read(sampler.descriptor, 1 << 16))]
    finally:
        sampler.close()
    return samples


def facts(samples: t.Sequence[t.Mapping[str, t.Any]]) -> t.List[t.Any]:
    """As JSON: of each sample the count, and what the third GPU is."""
    found = []
    for sample in samples:
        reading = nvml.parse(sample["raw"]) if "raw" in sample else nvidia_smi.parse(sample["text"], sample["rc"])
        gpu = reading.gpus[2] if len(reading.gpus) > 2 else None
        names = (
            "uuid",
            "index",
            "pci",
            "temperature_c",
            "power_watts",
            "power_limit_watts",
            "utilisation_pct",
            "pcie_gen",
            "pcie_width",
            "state",
        )
        found.append([len(reading.gpus), reading.complete, {name: getattr(gpu, name) for name in names} if gpu else None, reading.error])
    return found


@pytest.mark.parametrize("source", ["auto", "nvidia_smi"])
def test_samples_tell_what_a_reading_tells(source, tmp_path):
    node = Node(tmp_path, "h100x8")
    if node.nvml_problem:
        pytest.skip(node.nvml_problem)
    (count, complete, gpu, error), *_more = node.ask(lambda: facts(take(source, 1)))
    assert (count, complete, error, gpu["state"]) == (8, True, None, "ok")
    assert (gpu["index"], gpu["pci"], gpu["power_limit_watts"], gpu["pcie_gen"], gpu["pcie_width"]) == (2, node.pci(2), 700.0, 5, 16)
    assert gpu["uuid"]
    assert 20 < gpu["temperature_c"] < 60


def test_first_samples_come_quickly_then_at_the_interval(tmp_path):
    node = Node(tmp_path, "h100x8")
    came = node.ask(lambda: [sample["came"] for sample in take("nvidia_smi", 4, interval=60)])
    assert len(came) == 4
    assert came[-1] < 5


def test_a_lost_gpu_is_told_and_the_others_still_are(tmp_path):
    node = Node(tmp_path, "h100x8+gpu_lost")
    if node.nvml_problem:
        pytest.skip(node.nvml_problem)

    def question():
        reading = nvml.parse(take("nvml", 1)[0]["raw"])
        return [[gpu.index, gpu.state] for gpu in reading.gpus]

    assert node.ask(question) == [[index, "lost" if index == 3 else "ok"] for index in range(8)]


def test_a_driver_that_hangs_gives_no_sample_and_is_left(tmp_path):
    node = Node(tmp_path, "h100x8+hung_gpu")
    if node.nvml_problem:
        pytest.skip(node.nvml_problem)

    def question():
        begin = time.monotonic()
        return [len(take("nvml", 1, seconds=0.5)), time.monotonic() - begin]

    samples, seconds = node.ask(question)
    assert samples == 0
    assert seconds < 30


def test_without_nvml_and_tool_the_samples_say_so(tmp_path):
    node = Node(tmp_path, "h100x8")
    node.tool("nvidia-smi", "exit 1")
    (tool,) = [path for path in (tmp_path / "bin").iterdir() if path.name == "nvidia-smi"]
    tool.unlink()
    node.environment["PATH"] = str(tmp_path / "bin")
    (sample,) = node.ask(lambda: take("nvidia_smi", 1))
    assert "nvidia-smi was not found" in sample["problem"]


def test_half_a_line_waits_for_its_rest():
    sampler = gpu_samples.Sampler.__new__(gpu_samples.Sampler)
    sampler._rest = b""
    assert sampler.feed(b'{"usec": 1, "raw"') == []
    assert sampler.feed(b': {}}\nrubbish\n[1]\n{"usec": 2}\n') == [{"usec": 1, "raw": {}}, {"usec": 2}]
