# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import dcgm
from ansible_collections.kentino.gpu.plugins.module_utils._parse.dcgm_diag import DcgmDiag, DiagError, DiagResult, DiagRun, DiagTest


def _test(name, *statuses, category="Hardware", errors=()):
    return DiagTest(name, category, tuple(DiagResult("GPU", gpu, status, tuple(errors)) for gpu, status in enumerate(statuses)))


def _record(*tests, **more):
    return DcgmDiag((DiagRun(tests, complete=True, **more),), complete=True)


def _codes(record, **policy):
    return [(finding.code, finding.verdict, finding.subject.index) for finding in dcgm.judge(record, policy)]


_MEMORY = _test("memory", "pass", "pass")
_EUD = _test("eud", "skip", "skip")


@pytest.mark.parametrize(
    ("record", "policy", "codes"),
    [
        pytest.param(_record(_MEMORY, _EUD), {}, [], id="skipped everywhere"),
        pytest.param(
            _record(_test("Inforom", "pass", category="Deployment"), _test("PCIe", "skip"), _test("Diagnostic", "skip")),
            {},
            [("dcgm.skipped", "unknown", None)],
            id="only the software checks ran",
        ),
        pytest.param(
            _record(_test("memory", "pass"), _test("pcie", "skip"), _test("pulse_test", "skip")),
            {},
            [("dcgm.skipped", "unknown", None)],
            id="most of it was skipped",
        ),
        pytest.param(
            _record(_test("memory", "pass"), _test("pcie", "skip"), _test("pulse_test", "skip")),
            {"required_tests": ["memory"]},
            [],
            id="most of it was skipped and is not required",
        ),
        pytest.param(_record(_MEMORY, _EUD), {"required_tests": ["memory"]}, [], id="what is required ran"),
        pytest.param(_record(_MEMORY, _EUD), {"required_tests": ["eud"]}, [("dcgm.required", "unknown", None)], id="required and skipped"),
        pytest.param(_record(_MEMORY), {"required_tests": ["pcie"]}, [("dcgm.required", "unknown", None)], id="required and absent"),
        pytest.param(
            _record(_MEMORY, DiagTest("pcie", "Integration")),
            {"required_tests": ["PCIe"]},
            [("dcgm.required", "unknown", None)],
            id="did not run",
        ),
        pytest.param(_record(_MEMORY, DiagTest("eud", None)), {"required_tests": ["memory"]}, [], id="did not run and is not required"),
        pytest.param(_record(_test("GPU Memory", "pass")), {"required_tests": ["memory"]}, [], id="the name of DCGM 3"),
        pytest.param(_record(_test("memory", "pass")), {"required_tests": ["GPU Memory"]}, [], id="the name of DCGM 3 in the policy"),
        pytest.param(_record(_test("Targeted Stress", "pass")), {"required_tests": ["targeted_stress"]}, [], id="another spelling"),
        pytest.param(
            _record(_test("Inforom", "pass", category="Deployment")),
            {"required_tests": ["software"]},
            [],
            id="Deployment of DCGM 3 is software",
        ),
        pytest.param(_record(_MEMORY), {"expected_gpus": 2}, [], id="as many GPUs as expected"),
        pytest.param(_record(_MEMORY), {"expected_gpus": 8}, [("dcgm.gpu_count", "unknown", None)], id="fewer GPUs than expected"),
        pytest.param(
            _record(_MEMORY, entities={("GPU", 0): "a", ("GPU", 2): "c"}),
            {},
            [("dcgm.not_covered", "unknown", 2)],
            id="a GPU without results",
        ),
        pytest.param(_record(_MEMORY, entities={("CPU", 0): None}), {}, [], id="a CPU is not tested"),
        pytest.param(
            _record(_MEMORY, DiagTest("Inforom", "Deployment", (DiagResult("GPU", 1, "pass"),))), {}, [], id="Deployment names one GPU only"
        ),
    ],
)
def test_what_must_have_run(record, policy, codes):
    assert _codes(record, **policy) == codes


def _failed(*errors):
    return _record(DiagTest("memory", "Hardware", (DiagResult("GPU", 0, "fail", errors),)))


@pytest.mark.parametrize(
    ("errors", "override", "verdict"),
    [
        pytest.param([DiagError(56, 4, 8, "x")], {}, "fail", id="as the table says"),
        pytest.param([DiagError(56, 4, 8, "x")], {56: {"severity": "warning"}}, "warn", id="the inventory has it milder"),
        pytest.param([DiagError(29, 5, 8, "x")], {"29": {"severity": "critical", "action": "reboot_node"}}, "fail", id="or more severe"),
        pytest.param([DiagError(29, 5, 8, "x")], {56: {"severity": "critical"}}, "warn", id="another number is meant"),
        pytest.param([DiagError(None, None, None, "x")], {}, "fail", id="no number"),
    ],
)
def test_overrides(errors, override, verdict):
    (finding,) = dcgm.judge(_failed(*errors), {"errors": override})
    assert finding.verdict == verdict


def test_the_same_finding_in_every_iteration_is_counted():
    run = _failed(DiagError(52, 2, 10, "2 cells")).runs[0]
    (finding,) = dcgm.judge(DcgmDiag((run, run, run), complete=True), {})
    assert (finding.code, finding.count) == ("dcgm.52", 3)


def test_two_bad_gpus_are_two_findings():
    record = _record(_test("memory", "fail", "fail", errors=[DiagError(52, 2, 10, "x")]))
    assert _codes(record) == [("dcgm.52", "fail", 0), ("dcgm.52", "fail", 1)]


def test_the_evidence_says_what_ran():
    check = dcgm.check(_record(_MEMORY, _EUD), {})
    assert (check.verdict, check.evidence, check.metrics) == ("pass", "1 tests ran on 2 GPUs", {"tests_run": 1, "gpus_tested": 2})
    assert dcgm.check(_record(_EUD), {}).verdict == "unknown"
    assert dcgm.check(DcgmDiag(), {}).verdict == "unknown"
