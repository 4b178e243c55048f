# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import dryrun as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse import dryrun as parser
from ansible_collections.kentino.gpu.plugins.module_utils._parse.cuda_oom import CudaOom
from ansible_collections.kentino.gpu.plugins.module_utils._parse.dryrun_records import DryRun, Phase, Stuck
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.dryrun_runs import (
    GLOO_CLOSED,
    GLOO_TIMED_OUT,
    POLICY,
    device,
    ended,
    failed,
    finished,
    healthy,
    rank,
    run,
    step,
)

GIB = 1 << 30
CLOSED = [failed(number, GLOO_CLOSED) for number in range(3)]
TIMED_OUT = [failed(number, GLOO_TIMED_OUT) for number in range(3)]
FULL = CudaOom(
    request_bytes=GIB, capacity_bytes=80 * GIB, free_bytes=0, allocated_bytes=79 * GIB, unallocated_bytes=0, process_bytes=80 * GIB
)


def _paced(*seconds, **more):
    """Ranks that compute a step in so many seconds."""
    ranks = []
    for number, own in enumerate(seconds):
        steps = [step(0, len(seconds), compute_seconds=9.0), *(step(done, len(seconds), compute_seconds=own) for done in (1, 2))]
        ranks.append(finished(number, steps, world=len(seconds), **more))
    return run(*ranks)


def _codes(record, **policy):
    return [(finding.code, finding.verdict, finding.subject.index) for finding in judge.judge(record, {**POLICY, **policy})]


def test_a_run_that_is_whole_passes():
    check = judge.check(healthy(), POLICY)
    assert (check.verdict, check.findings) == ("pass", ())
    assert check.evidence == "4 ranks on cuda went through a warm-up and 2 steps with PyTorch 2.9.1"


@pytest.mark.parametrize(
    ("record", "policy", "codes"),
    [
        pytest.param(run(*CLOSED, ended(rank(3, "backward", 1), -9)), {}, [("rank_died", "fail", 3)], id="one rank dies"),
        pytest.param(run(*TIMED_OUT, ended(rank(3, "backward", 1), -15), closed=(3,)), {}, [("rank_hung", "fail", 3)], id="one rank hangs"),
        pytest.param(run(*TIMED_OUT, failed(3, GLOO_TIMED_OUT)), {}, [("rank_hung", "unknown", None)], id="which one cannot be told"),
        pytest.param(run(*CLOSED, failed(3, "out", "backward", oom=FULL)), {}, [("oom", "fail", 3)], id="out of memory"),
        pytest.param(
            run(*(failed(number, "CUDA out of memory", "backward", oom=FULL) for number in range(4))),
            {},
            [("oom", "fail", None)],
            id="all out of memory: the job is too large, no card is at fault",
        ),
        pytest.param(
            run(*(failed(number, "no module named nccl", "import", None, "ImportError") for number in range(4))),
            {},
            [("rank_died", "fail", None)],
            id="all die of the same thing: the installation",
        ),
        pytest.param(
            run(*(ended(rank(number, "forward", 1), -9 - number % 2 * 2) for number in range(4))),
            {},
            [("rank_died", "fail", number) for number in range(4)],
            id="all die, of different things",
        ),
        pytest.param(run(*CLOSED, failed(3, "Found no NVIDIA driver", "device", None)), {}, [("no_gpu", "fail", 3)], id="no device"),
        pytest.param(healthy(exit_status=1), {}, [("exit_status", "unknown", None)], id="bad status of a clean run"),
        pytest.param(healthy(exit_status=None), {}, [("exit_status", "unknown", None)], id="status not known"),
        pytest.param(run(*(finished(n) for n in range(3)), exit_status=0), {}, [("rank_count", "unknown", None)], id="a rank too few"),
        pytest.param(healthy(), {"ranks": 3}, [("rank_count", "unknown", None), ("rank_count", "unknown", None)], id="a rank too many"),
        pytest.param(healthy(), {"ranks": None, "steps": None}, [], id="nothing said of what is expected"),
        pytest.param(
            run(*(finished(number, device=device(0)) for number in range(4))),
            {},
            [("rank_count", "unknown", None)],
            id="all on the same GPU",
        ),
        pytest.param(
            run(*(finished(number, device=None) for number in range(4))),
            {},
            [("no_gpu", "unknown", number) for number in range(4)],
            id="on which GPU is not told",
        ),
        pytest.param(run(*(finished(number, device=None) for number in range(4))), {"device": "cpu"}, [], id="no GPU asked for"),
        pytest.param(healthy(), {"steps": 3}, [("incomplete", "unknown", number) for number in range(4)], id="a step is missing"),
        pytest.param(
            run(*(finished(number) for number in range(3)), finished(3, [step(0), step(1), step(2, parts=(1.0, 1.0, 1.0))])),
            {},
            [("incomplete", "unknown", 3)],
            id="the part of a rank is missing",
        ),
        pytest.param(
            run(*(finished(number) for number in range(3)), finished(3, [step(0), step(1), step(2, gradient_norm=None)])),
            {},
            [("incomplete", "unknown", 3)],
            id="a value is missing",
        ),
        pytest.param(
            run(*(finished(number) for number in range(3)), finished(3, unreadable=2)), {}, [("incomplete", "unknown", 3)], id="garbled"
        ),
        pytest.param(
            DryRun(exit_status=1, output_end=("No module named torch.distributed",)), {}, [("incomplete", "unknown", None)], id="none"
        ),
        pytest.param(healthy(), {"drill": "slow:rank=1"}, [("drill", "unknown", None)], id="a drill is no proof"),
        pytest.param(
            run(*(finished(number, memory={"alloc_retries": number}) for number in range(2)), *(finished(n) for n in (2, 3))),
            {},
            [("alloc_retries", "warn", 1)],
            id="memory given back to go on",
        ),
        pytest.param(_paced(0.1, 0.1, 0.1, 0.12), {}, [("straggler", "warn", 3)], id="slower than the others"),
        pytest.param(_paced(0.1, 0.1, 0.1, 0.114), {}, [], id="a little slower"),
        pytest.param(_paced(0.1, 0.1, 0.1, 0.05), {}, [], id="faster is no fault"),
        pytest.param(_paced(0.001, 0.001, 0.001, 0.004), {}, [], id="four times as slow, and only by milliseconds"),
        pytest.param(_paced(0.1, 0.1, 0.1, 0.3), {"limits": {"dryrun_slow_tolerance_pct": 300}}, [], id="slower is allowed"),
        pytest.param(_paced(0.1, 0.2), {"ranks": 2}, [("straggler", "warn", 1)], id="one of two"),
        pytest.param(_paced(0.1), {"ranks": 1}, [], id="alone, there is nobody to compare with"),
    ],
)
def test_findings(record, policy, codes):
    assert _codes(record, **policy) == [("dryrun." + code, verdict, index) for code, verdict, index in codes]


def test_cards_of_two_models_are_no_siblings():
    ranks = list(_paced(0.1, 0.1, 0.3, 0.3).ranks)
    mixed = run(*ranks[:2], *(finished(n, ranks[n].steps, device=device(n, name="NVIDIA L40S")) for n in (2, 3)))
    assert _codes(mixed) == []


def test_a_slow_rank_is_told_from_those_that_wait_for_it():
    steps = [[step(n, compute_seconds=own, reduce_seconds=0.5 - own, step_seconds=0.6) for n in range(3)] for own in (0.1, 0.1, 0.1, 0.45)]
    assert _codes(run(*(finished(number, own) for number, own in enumerate(steps)))) == [("dryrun.straggler", "warn", 3)]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("timeout", "tool.timeout"),
        ("unkillable", "tool.timeout"),
        ("missing", "tool.missing"),
        ("lost", "dryrun.incomplete"),
        ("stopped", "dryrun.incomplete"),
    ],
)
def test_a_launcher_that_did_not_end_by_itself_is_no_pass(outcome, code):
    check = judge.check(healthy(outcome=outcome, exit_status=None, problem="torchrun had not ended"), POLICY)
    assert check.verdict == "unknown"
    assert [(finding.code, finding.message) for finding in check.findings] == [(code, "torchrun had not ended")]


def test_a_dead_rank_is_told_with_all_that_helps_to_find_it():
    (finding,) = judge.judge(run(*CLOSED, ended(rank(3, "backward", 1), -9)), POLICY)
    assert finding.message == "rank 3 (GPU 3 0000:04:00, pid 7003 on node4) was killed by SIGKILL in backward of step 1"
    assert (finding.subject.uuid, finding.subject.serial, finding.action) == ("GPU-3", "S3", "look_at_code")
    assert "out-of-memory killer" in finding.advice


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("CUDA error: uncorrectable ECC error encountered", "reset_gpu"),
        ("CUDA error: an illegal memory access was encountered", "reset_gpu"),
        ("GPU is lost", "reseat"),
        ("CUDA error: no kernel image is available for execution on the device", "look_at_code"),
        ("something else", "look_at_code"),
    ],
)
def test_what_the_device_says_decides_what_to_do(text, action):
    (finding,) = judge.judge(run(*CLOSED, failed(3, text, "backward")), POLICY)
    assert (finding.action, text in finding.message) == (action, True)


def test_what_all_ranks_say_is_not_repaired_card_by_card():
    everyone = run(*(failed(n, "CUDA error: no kernel image is available for execution on the device", "forward", 0) for n in range(4)))
    (finding,) = judge.judge(everyone, POLICY)
    assert (finding.subject.kind, finding.action, finding.count) == ("node", "look_at_code", 4)
    assert finding.message.startswith("all 4 ranks alike: ")


@pytest.mark.parametrize(
    ("changes", "action", "words"),
    [
        pytest.param(
            {}, "reset_gpu", "did not enter allreduce of step 1, where 3 ranks waited; last seen in backward of step 1", id="plain"
        ),
        pytest.param({"state": "D"}, "reboot_node", "its process hangs in the kernel (state D)", id="in the kernel"),
        pytest.param({"state": "T"}, "reset_gpu", "its process is stopped (state T)", id="stopped by somebody"),
        pytest.param({"device": None}, "look_at_code", "last seen in backward of step 1", id="without a GPU"),
    ],
)
def test_a_rank_that_hangs(changes, action, words):
    (finding,) = judge.judge(run(*TIMED_OUT, ended(rank(3, "backward", 1, **changes), -15), closed=(3,)), POLICY)
    assert finding.action == action
    assert words in finding.message


def test_the_stack_of_a_rank_that_hangs_is_shown_where_it_is_of_this_phase():
    stacks = [Stuck(Phase("import"), 31, ("old",)), Stuck(Phase("backward", 1), 31, ("a", "b", "c", "d"))]
    hung = rank(3, "backward", 1, stuck=tuple(stacks))
    earlier = rank(3, "backward", 1, stuck=tuple(stacks[:1]), log_end=("the end",))
    shown = [judge.judge(run(*TIMED_OUT, ended(one, -15), closed=(3,)), POLICY)[0].evidence for one in (hung, earlier)]
    assert shown == [("b", "c", "d"), ("the end",)]


def test_memory_says_its_cause_and_the_step():
    (finding,) = judge.judge(run(*CLOSED, failed(3, "CUDA out of memory. ...", "backward", oom=FULL)), POLICY)
    where = "rank 3 on GPU 3 ran out of memory in backward of step 1, activations: "
    assert finding.message == where + "tensors of this job take 79 GiB of 80 GiB; 1 GiB more were asked for"


def test_nobody_to_blame_leaves_the_verdict_open_and_says_what_was_seen():
    record = run(*(failed(number, "unhandled system error", "broadcast", None) for number in range(4)), output_end=("x",))
    (finding,) = judge.judge(record, POLICY)
    assert (finding.code, finding.verdict) == ("dryrun.incomplete", "unknown")
    assert "4 of 4 ranks did not finish" in finding.message
    assert "unhandled system error" in finding.message


def test_metrics_leave_the_warm_up_out():
    metrics = judge.metrics(_paced(0.1, 0.2), {"tokens_per_step": 300})
    assert metrics["compute_seconds"] == {"0": 0.1, "1": 0.2}
    assert (metrics["ranks_finished"], metrics["step_seconds"], metrics["reduce_seconds"]) == (2, 0.15, 0.02)
    assert metrics["tokens_per_second"] == pytest.approx(2000)
    assert metrics["peak_reserved_bytes"] is None


def test_metrics_of_nothing():
    assert judge.metrics(DryRun(), {})["step_seconds"] is None


def _record_of(number):
    lines = [{"kind": "rank", "rank": number, "local_rank": number, "world": 2, "pid": 50 + number, "host": "h"}]
    for done in range(3):
        lines += [{"kind": "phase", "phase": name, "step": done, "usec": 1} for name in ("forward", "backward", "allreduce", "gather")]
        values = {"loss": 5, "gradient_norm": 2, "reduced_gradient_norm": 2, "compute_seconds": 1, "reduce_seconds": 1, "step_seconds": 2}
        lines.append({"kind": "step", "step": done, "parts": [1, 1], "gathered_losses": [5, 5], **values})
    return "\n".join(json.dumps(line) for line in [*lines, {"kind": "finished"}]) + "\n"


def test_records_cut_at_any_byte_never_pass():
    whole, policy = _record_of(1), {"ranks": 2, "steps": 2, "device": "cpu"}

    def verdict(record):
        return judge.check(parser.parse({0: _record_of(0), 1: record}, {}, "", 0), policy).verdict

    assert verdict(whole) == "pass"
    # Without the last line break, and no more, all is there.
    assert {verdict(whole[:cut]) for cut in range(0, len(whole) - 1, 3)} <= {"unknown", "fail"}
    assert verdict(whole[: len(whole) - 2]) == "unknown"
