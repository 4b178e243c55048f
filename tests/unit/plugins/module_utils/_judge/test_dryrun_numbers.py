# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import math

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import dryrun_numbers
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge.thresholds import limits
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.dryrun_runs import finished, healthy, run, step

NAN, INF = math.nan, math.inf


def _step(number, **more):
    return step(number, **{"gathered_losses": (), **more})


def _steps(loss=5.0, gradient=2.0, **last):
    """Three steps; C(last) changes the last one."""
    return [_step(0), _step(1, loss=loss, gradient_norm=gradient), _step(2, **last)]


def _run(*odd, count=4):
    """C(odd): rank number and its steps; the others are as they should be. All receive what was sent unless they say otherwise."""
    own = {number: list(dict(odd).get(number, _steps())) for number in range(count)}
    sent = [tuple(steps[place].loss for steps in own.values()) for place in range(3)]
    for steps in own.values():
        steps[:] = [one if one.gathered_losses else dataclasses.replace(one, gathered_losses=sent[one.step]) for one in steps]
    return run(*(finished(number, steps) for number, steps in own.items()))


def _found(record, **overrides):
    findings = dryrun_numbers.judge(record, limits(overrides))
    return [(finding.code, finding.verdict, finding.subject.kind, finding.subject.index) for finding in findings]


@pytest.mark.parametrize(
    ("record", "found"),
    [
        pytest.param(healthy(), [], id="all the same"),
        pytest.param(_run((2, _steps(loss=5.004))), [], id="within a tenth of a percent"),
        pytest.param(_run((2, _steps(loss=5.006))), [("loss_differs", "rank", 2)], id="just beyond"),
        pytest.param(_run((2, _steps(loss=4.9))), [("loss_differs", "rank", 2)], id="smaller is as wrong"),
        pytest.param(_run((2, _steps(loss=9.0, gradient=7.0))), [("loss_differs", "rank", 2)], id="a wrong loss has a wrong gradient"),
        pytest.param(_run((2, _steps(gradient=2.03))), [("gradient_differs", "rank", 2)], id="the gradient alone"),
        pytest.param(_run((2, _steps(gradient=2.01))), [], id="attention backward is not exact"),
        pytest.param(
            _run((1, _steps(loss=6)), (2, _steps(loss=7)), count=5),
            [("loss_differs", "rank", 1), ("loss_differs", "rank", 2)],
            id="two of five, each in its own way",
        ),
        pytest.param(_run((1, _steps(loss=6)), count=2), [("loss_differs", "node", None)], id="two ranks: which one cannot be told"),
        pytest.param(
            _run((2, _steps(loss=6)), (3, _steps(loss=6))), [("loss_differs", "node", None)], id="half against half: which cannot be told"
        ),
        pytest.param(_run((1, _steps(loss=NAN))), [("loss_not_finite", "rank", 1)], id="not a number"),
        pytest.param(_run((1, _steps(loss=-INF, gradient=NAN))), [("loss_not_finite", "rank", 1)], id="infinite, and the gradient with it"),
        pytest.param(_run((1, _steps(gradient=INF))), [("gradient_not_finite", "rank", 1)], id="gradient infinite"),
        pytest.param(
            _run(*((number, _steps(loss=NAN)) for number in range(4))), [("loss_not_finite", "node", None)], id="all ranks: not one card"
        ),
        pytest.param(
            _run(*((number, _steps(reduced_gradient_norm=INF)) for number in range(4))),
            [("gradient_not_finite", "node", None)],
            id="only the sum overflows",
        ),
        pytest.param(
            _run(
                (0, [_step(0), _step(1, loss=NAN), _step(2, loss=NAN)]),
                *((number, [_step(0), _step(1), _step(2, loss=NAN)]) for number in (1, 2, 3)),
            ),
            [("loss_not_finite", "rank", 0)],
            id="one rank is first, the all-reduce hands it on to the others",
        ),
        pytest.param(_run((3, _steps(parts=(1, 1, 0, 1)))), [("collective_wrong", "rank", 3)], id="one rank received a wrong sum"),
        pytest.param(
            _run(*((number, _steps(parts=(1, 1, 0, 1))) for number in range(4))),
            [("collective_wrong", "rank", 2)],
            id="the part of one rank is in no sum",
        ),
        pytest.param(
            _run(*((number, _steps(parts=(4, 2, 0, 1))) for number in range(4))), [("collective_wrong", "node", None)], id="all mixed up"
        ),
        pytest.param(
            _run((1, _steps(gathered_losses=(5.0, 5.0, 5.0, 4.0)))), [("collective_wrong", "rank", 1)], id="received what was not sent"
        ),
    ],
)
def test_findings(record, found):
    assert _found(record) == [("dryrun." + code, "fail", kind, index) for code, kind, index in found]


def test_the_tolerances_are_the_inventorys():
    assert _found(_run((2, _steps(loss=5.4, gradient=2.2))), dryrun_loss_tolerance_pct=10, dryrun_gradient_tolerance_pct=20) == []


def test_both_values_and_how_often_are_told():
    (finding,) = dryrun_numbers.judge(_run((2, [_step(0, loss=7), *_steps(loss=6)[1:]])), limits())
    assert finding.message == ("rank 2 on GPU 2 computed a loss of 7 in the warm-up step, the others 5; 0.1 % allowed; so in 2 steps")
    assert (finding.count, finding.subject.serial) == (2, "S2")


def test_a_card_is_sent_to_its_vendor_and_a_cpu_is_not():
    (card,) = dryrun_numbers.judge(_run((2, _steps(loss=6))), limits())
    ranks = _run((2, _steps(loss=6))).ranks
    (no_card,) = dryrun_numbers.judge(run(*(dataclasses.replace(rank, device=None) for rank in ranks)), limits())
    assert (card.action, no_card.action) == ("contact_vendor", "look_at_code")
