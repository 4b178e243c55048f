# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is to blame: the table of what ranks leave, and which of them is named."""

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge.dryrun_ends import ends
from ansible_collections.kentino.gpu.plugins.module_utils._parse.cuda_oom import CudaOom
from ansible_collections.kentino.gpu.plugins.module_utils._parse.dryrun_records import Rank
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.dryrun_runs import (
    GLOO_CLOSED,
    GLOO_TIMED_OUT,
    NCCL_WATCHDOG,
    ended,
    failed,
    finished,
    healthy,
    rank,
    run,
)

CLOSED = [failed(number, GLOO_CLOSED) for number in range(3)]
TIMED_OUT = [failed(number, GLOO_TIMED_OUT) for number in range(3)]
ABORTED = [ended(rank(number, "allreduce", 1, signs=(NCCL_WATCHDOG,)), -6) for number in range(3)]
WAITING = [rank(number, "allreduce", 1) for number in range(3)]
BEHIND = rank(3, "backward", 1)
MEMORY = CudaOom(request_bytes=1)


def _blamed(record):
    found = ends(record, 30)
    return {kind: [one.rank for one in getattr(found, kind)] for kind in ("died", "oom", "no_gpu", "hung") if getattr(found, kind)}


@pytest.mark.parametrize(
    ("record", "blamed"),
    [
        pytest.param(healthy(), {}, id="all finished"),
        pytest.param(run(*CLOSED, ended(BEHIND, -9)), {"died": [3]}, id="killed, gloo's peers see a closed connection"),
        pytest.param(run(*CLOSED, ended(BEHIND, -11)), {"died": [3]}, id="segmentation fault"),
        pytest.param(run(*CLOSED, ended(rank(3, "import", None), 1)), {"died": [3]}, id="ended by itself while it started"),
        pytest.param(
            run(*(ended(one, -15) for one in WAITING), ended(BEHIND, -9), closed=(0, 1, 2)),
            {"died": [3]},
            id="killed, NCCL's peers wait until torchrun ends them",
        ),
        pytest.param(run(*CLOSED, failed(3, "list index out of range", "backward")), {"died": [3]}, id="an exception of its own"),
        pytest.param(
            run(*CLOSED, failed(3, "CUDA error: uncorrectable ECC error encountered")),
            {"died": [3]},
            id="its device failed in the collective",
        ),
        pytest.param(
            run(*ABORTED, ended(rank(3, "allreduce", 1, signs=("what():  CUDA error: unspecified launch failure",)), -6)),
            {"died": [3]},
            id="aborted because of its device, the others because of it",
        ),
        pytest.param(run(*CLOSED, failed(3, "CUDA out of memory.", "backward", oom=MEMORY)), {"oom": [3]}, id="out of memory"),
        pytest.param(
            run(*CLOSED, failed(3, "CUDA out of memory.", "allreduce", oom=MEMORY)), {"oom": [3]}, id="out of memory inside the collective"
        ),
        pytest.param(run(*CLOSED, failed(3, "Found no NVIDIA driver", "device", None)), {"no_gpu": [3]}, id="no device"),
        pytest.param(run(*TIMED_OUT, ended(BEHIND, -15), closed=(3,)), {"hung": [3]}, id="hung, gloo's peers time out"),
        pytest.param(run(*ABORTED, ended(BEHIND, -15), closed=(3,)), {"hung": [3]}, id="hung, NCCL's watchdog aborts the others"),
        pytest.param(run(*ABORTED, ended(BEHIND, -9), closed=(3,)), {"hung": [3]}, id="hung and deaf to SIGTERM: torchrun killed it"),
        pytest.param(
            run(*(failed(number, GLOO_TIMED_OUT if number == 0 else GLOO_CLOSED) for number in range(3)), ended(BEHIND, -15), closed=(3,)),
            {"hung": [3]},
            id="hung, the first to give up closes its connections",
        ),
        pytest.param(
            run(
                *(
                    failed(number, "Timed out after 601 seconds waiting for clients. 3/4 clients joined.", "group", None)
                    for number in range(3)
                ),
                ended(rank(3, "import", None), -15),
                closed=(3,),
            ),
            {"hung": [3]},
            id="hung while it started",
        ),
        pytest.param(run(*TIMED_OUT, Rank(3)), {"hung": [3]}, id="said nothing at all"),
        pytest.param(run(*WAITING, BEHIND, outcome="timeout"), {"hung": [3]}, id="hung, and we ended the run"),
        pytest.param(
            run(*WAITING, rank(3, "forward", 1), rank(4, "backward", 1), outcome="unkillable"), {"hung": [3, 4]}, id="two of them"
        ),
        pytest.param(
            run(*WAITING[:2], rank(2, "broadcast", None), rank(3, "build", None), outcome="timeout"),
            {"hung": [3]},
            id="one passed a broadcast early: those that wait in it are not to blame",
        ),
        pytest.param(
            run(*(rank(number, "gather", 1) for number in range(3)), rank(3, "allreduce", 1), outcome="timeout"),
            {"hung": [3]},
            id="entered the collective and did not come out as the others did",
        ),
        pytest.param(run(rank(0, "backward", 1, world=1), outcome="timeout"), {"hung": [0]}, id="alone, nobody waits for it"),
        pytest.param(
            run(*(finished(number) for number in range(3)), rank(3, "gather", 2), outcome="timeout"),
            {"hung": [3]},
            id="all others are done",
        ),
        pytest.param(
            run(*(rank(number, "allreduce", 1, waited_seconds=2) for number in range(3)), rank(3, "backward", 1, 2), outcome="timeout"),
            {},
            id="the time was up while all still worked",
        ),
        pytest.param(run(*CLOSED, rank(3, "backward", 1)), {"died": [3]}, id="gone, and torchrun did not tell"),
        pytest.param(run(*WAITING, rank(3, "backward", 1, state="gone"), outcome="timeout"), {"died": [3]}, id="gone before we ended it"),
        pytest.param(
            run(*(ended(one, -15) for one in [*WAITING, BEHIND]), closed=(0, 1, 2, 3)), {}, id="ended from outside: nobody is to blame"
        ),
        pytest.param(run(*CLOSED, ended(BEHIND, -9), closed=(3,)), {"died": [3]}, id="killed in the moment in which torchrun ended all"),
    ],
)
def test_the_culprit_is_named_and_not_its_victims(record, blamed):
    assert _blamed(record) == blamed


@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param([failed(number, GLOO_TIMED_OUT) for number in range(4)], id="gloo"),
        pytest.param([ended(rank(number, "allreduce", 1), -6) for number in range(4)], id="NCCL"),
        pytest.param([failed(number, GLOO_TIMED_OUT) for number in range(1, 4)], id="of the fourth nothing is known"),
        pytest.param(
            [*(failed(number, GLOO_TIMED_OUT) for number in range(2)), *(failed(number, GLOO_TIMED_OUT, "gather") for number in (2, 3))],
            id="half of them are further",
        ),
    ],
)
def test_all_in_a_collective_cannot_be_told(ranks):
    found = ends(run(*ranks), 30)
    assert found.undecided
    assert not found.culprits
    assert found.collective is not None


def test_where_the_others_waited_is_told():
    found = ends(run(*TIMED_OUT, ended(BEHIND, -15), closed=(3,)), 30)
    assert found.collective is not None
    assert found.collective.words() == "allreduce of step 1"
    assert [one.rank for one in found.waited] == [0, 1, 2]
