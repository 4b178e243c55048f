# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import burn
from ansible_collections.kentino.gpu.plugins.module_utils._parse import gpu_burn, gpu_burn_stream
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_burn_stream import BurnStream
from hypothesis import given
from hypothesis import strategies as st

HEAD = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-8b6c0d5e-0000-4000-8000-000000000001)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-8b6c0d5e-0000-4000-8000-000000000002)
Using compare file: compare.ptx
Burning for 100 seconds.
"""
END = "\nKilling processes with SIGTERM (soft kill)\nFreed memory for dev 0\nUninitted cublas\ndone\n"
END += "\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: OK\n"


def record(
    percent: float, work: t.Sequence[int], errors: t.Sequence[t.Any] = (0, 0), temps: t.Sequence[int] = (60, 61), power: str = ""
) -> str:
    done = " - ".join("%d (16900 Gflop/s) " % item for item in work)
    return "\r%.1f%%  proc'd: %s  errors: %s   temps: %s C%s " % (
        percent,
        done,
        " - ".join("%s " % item for item in errors),
        " C - ".join(map(str, temps)),
        power,
    )


def run(redraws: int = 30, errors_at: int = -1, stalls: bool = False) -> str:
    """A run in which each batch is drawn C(redraws) times, as with a tool that draws with every line of nvidia-smi."""
    text = HEAD
    for batch in range(1, 11):
        for redraw in range(redraws):
            percent = (batch - 1) * 10 + 10.0 * (redraw + 1) / redraws
            work = (100 * batch, 100 if stalls and batch > 1 else 100 * batch)
            text += record(percent, work, (0, 7 if batch == errors_at else 0), (60 + redraw % 9, 61))
        text += "\n\tSummary at:   Sun Nov 29 21:00:00 UTC 2026\n\n"
    return text + END


def streamed(text: str, size: int = 4096) -> t.Tuple[BurnStream, t.List[gpu_burn.Progress]]:
    stream, seen = BurnStream(), []
    content = text.encode()
    for place in range(0, len(content), size):
        seen += stream.feed(content[place : place + size])
    return stream, seen


POLICY = {"expected_gpus": 2, "run_seconds": 60, "slow_tolerance_pct": 10}


@pytest.mark.parametrize("text", [run(), run(errors_at=4), run(stalls=True), run()[:-9], HEAD, ""], ids=lambda text: "%d bytes" % len(text))
@pytest.mark.parametrize("size", [1, 7, 100000])
def test_the_verdict_is_that_of_the_whole_text(text, size):
    stream, _seen = streamed(text, size)
    kept, whole = burn.judge(stream.record(), POLICY), burn.judge(gpu_burn.parse(text), POLICY)
    assert [(one.code, one.verdict, one.subject) for one in kept] == [(one.code, one.verdict, one.subject) for one in whole]


def test_redrawn_records_are_left_out():
    stream, seen = streamed(run(redraws=200))
    assert len(stream.text()) < len(run(redraws=200)) / 50
    assert [progress.work[0] for progress in seen] == [100 * batch for batch in range(1, 11)]
    assert stream.record().progress[-1].percent == 100.0


def test_power_behind_the_temperatures_makes_no_new_record():
    """Versions of 2026 print it; it changes with every poll."""
    text = "".join(record(percent, (100, 100), power="   power: %d W - 300 W" % (290 + percent)) for percent in range(50))
    assert len(streamed(text + "\n")[1]) == 1


def test_records_come_as_soon_as_they_are_whole():
    stream = BurnStream()
    first = record(10, (100, 100)).encode()
    assert stream.feed(first[:40]) == []
    assert stream.feed(first[40:]) == []  # whether its last figure is whole, what follows tells
    assert [progress.work for progress in stream.feed(b"\r")] == [(100, 100)]


def test_errors_and_deaths_are_seen_at_once():
    stream = BurnStream()
    (wrong,) = stream.feed(record(10, (100, 100), (0, "12  (WARNING!)")).encode() + b"\r")
    (dead,) = stream.feed(record(11, (100, -1), (0, "-1  (DIED!)")).encode() + b"\r")
    assert burn.with_errors(gpu_burn.GpuBurn(progress=(wrong,))) == (1,)
    assert burn.died(gpu_burn.GpuBurn(progress=(dead,))) == (1,)


def test_flood_is_told_and_not_kept(monkeypatch):
    monkeypatch.setattr(gpu_burn_stream, "MAX_KEPT_BYTES", 10000)
    stream = BurnStream()
    for number in range(2000):
        stream.feed(b"nonsense %d\n" % number)
    assert stream.overflow
    assert len(stream.text()) < 11000


def test_complaints_on_stderr_do_not_stand_behind_the_result():
    stream, _seen = streamed(run())
    whole = stream.record("read[0] error 0\ncuInit returned 0 (no error)\n")
    assert whole.complete
    assert whole.init_errors == ()


@given(st.integers(0, len(run(redraws=2))), st.integers(1, 50))
def test_output_cut_at_any_byte_is_no_pass(cut, size):
    text = run(redraws=2)
    stream, _seen = streamed(text[:cut], size)
    check = burn.check(stream.record(), POLICY)
    # The last line end says nothing.
    assert check.verdict == "pass" if cut >= len(text) - 1 else check.verdict in ("unknown", "fail")


@given(st.binary(max_size=400), st.integers(1, 50))
def test_no_output_raises(content, size):
    stream = BurnStream()
    for place in range(0, len(content), size):
        stream.feed(content[place : place + size])
    assert burn.check(dataclasses.replace(stream.record(), exit_status=0), POLICY).verdict in ("unknown", "fail")
