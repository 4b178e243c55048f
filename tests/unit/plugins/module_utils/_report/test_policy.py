# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import NODE, VERDICTS, Check, Finding, Subject, report
from ansible_collections.kentino.gpu.plugins.module_utils._report.policy import Policy, decide, decide_fleet, decide_named
from ansible_collections.kentino.gpu.plugins.module_utils._report.result import Missing
from ansible_collections.kentino.gpu.plugins.module_utils._report.waiver import read_waivers
from hypothesis import given, settings
from hypothesis import strategies as st

NOW = datetime(2026, 6, 30, 12, tzinfo=timezone.utc)
CARD = Subject("gpu", index=3, pci="0000:c1:00", serial="1320523004417")

WIDTH = Finding("gpu.pcie_width", "warning", CARD, "link width x4, x16 expected", "reseat")
LOST = Finding("xid.79", "critical", CARD, "has fallen off the bus", "reseat", advice="reseat the card and its riser")
HUNG = Finding("gpu.probe_hung", "critical", Subject("tool", "nvidia-smi"), "no answer within 20 s", "reboot_node", undetermined=True)
NOTED = Finding("xid.43", "info", CARD, "a program was ended", "look_at_code")

GOOD = Check("gpu", "8 GPUs read through NVML")
QUIET = Check("kernel_log", "412 lines of this boot")
SLOW = Check("gpu", "8 GPUs read through NVML", (WIDTH,))
BAD = Check("kernel_log", "412 lines of this boot", (LOST,))
BLIND = Check("gpu", "", (HUNG,))
SKIPPED = Check("burn", "", skipped="not asked for")


def _policy(worst="pass", required=(), **waiver):
    whole = {"code": "*", "subject": "*", "reason": "accepted", "until": "2026-12-31", **waiver}
    return Policy(worst, tuple(required), read_waivers([whole] if waiver else [], NOW))


def _codes(decision):
    return [found["code"] for found in decision.findings]


@pytest.mark.parametrize(
    ("checks", "policy", "is_open", "verdict"),
    [
        pytest.param([GOOD], Policy(), True, "pass", id="a good check"),
        pytest.param([Check("gpu", "8 GPUs", (NOTED,))], Policy(), True, "pass", id="information"),
        pytest.param([SLOW], Policy(), False, "warn", id="warning"),
        pytest.param([SLOW], Policy("warn"), True, "warn", id="warning, accepted"),
        pytest.param([GOOD, BAD], Policy("warn"), False, "fail", id="fault"),
        pytest.param([BLIND], Policy("warn"), False, "unknown", id="could not be told"),
        pytest.param([Check("gpu", "")], Policy("warn"), False, "unknown", id="nothing measured"),
        pytest.param([GOOD, SKIPPED], Policy(), True, "pass", id="skip of what nobody requires"),
        pytest.param([SKIPPED], Policy("warn"), False, "unknown", id="nothing but skips"),
        pytest.param([GOOD, SKIPPED], Policy(required=("gpu",)), True, "pass", id="required and there"),
        pytest.param([GOOD, SKIPPED], Policy(required=("burn",)), False, "unknown", id="required and skipped"),
        pytest.param([GOOD], Policy(required=("gpu", "fabric")), False, "unknown", id="required and absent"),
        pytest.param([GOOD], Policy("fail"), True, "pass", id="worst that is no choice, good node"),
        pytest.param([BAD], Policy("fail"), False, "fail", id="worst that is no choice, bad node"),
        pytest.param([BLIND], Policy("unknown"), False, "unknown", id="unknown cannot be asked for"),
        pytest.param([SKIPPED], Policy("skip"), False, "unknown", id="skip cannot be asked for"),
    ],
)
def test_reports_of_our_modules(checks, policy, is_open, verdict):
    decision = decide(report(checks), policy)
    assert (decision.open, decision.verdict) == (is_open, verdict)
    assert bool(decision.reasons) is not is_open


def test_several_results_are_judged_together():
    decision = decide([report([GOOD]), report([BAD])], Policy(required=("gpu", "kernel_log")))
    assert (decision.open, decision.verdict, decision.action, decision.ran) == (False, "fail", "reseat", ("gpu", "kernel_log"))


@pytest.mark.parametrize("spoiler", [None, {}, "ok", {"skipped": True}, {"failed": True, "msg": "x"}, {"finished": 0}, []], ids=str)
def test_one_result_that_is_none_spoils_the_good_ones(spoiler):
    decision = decide([report([GOOD]), spoiler])
    assert (decision.open, decision.verdict) == (False, "unknown")
    assert "result 2" in decision.message()


@pytest.mark.parametrize(
    ("change", "code", "verdict"),
    [
        pytest.param({"verdict": "pass"}, "gate.contradiction", "fail", id="says pass, a finding says fail"),
        pytest.param({"verdict": "pass", "findings": []}, "gate.contradiction", "fail", id="says pass, a check says fail"),
        pytest.param({"verdict": "skip"}, "gate.contradiction", "fail", id="says skip, a finding says fail"),
        pytest.param({"findings": []}, "gate.unexplained", "fail", id="a check says fail and nothing says why"),
        pytest.param({"checks": report([QUIET])["checks"]}, "gate.contradiction", "fail", id="the check says pass, its finding says fail"),
        pytest.param({"verdict": "superb"}, "gate.not_a_result", "fail", id="no word of ours"),
        pytest.param({"checks": []}, "gate.nothing_ran", "fail", id="no checks"),
    ],
)
def test_a_result_that_does_not_agree_with_itself(change, code, verdict):
    decision = decide({**report([BAD]), **change}, Policy("warn"))
    assert code in _codes(decision)
    assert (decision.open, decision.verdict) == (False, verdict)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param({"evidence": ""}, "gate.no_evidence", id="pass without evidence"),
        pytest.param({"evidence": ["8 GPUs"]}, "gate.no_evidence", id="evidence of another shape"),
        pytest.param({"skipped": "not asked for"}, "gate.contradiction", id="pass and skipped"),
        pytest.param({"verdict": "warn"}, "gate.contradiction", id="the result says pass, its check warn"),
        pytest.param({"name": ""}, "gate.not_a_result", id="no name"),
        pytest.param({"verdict": "ok"}, "gate.not_a_result", id="verdict of another tool"),
    ],
)
def test_a_pass_that_rests_on_nothing_is_unknown(change, code):
    told = report([GOOD])
    told["checks"][0].update(change)
    decision = decide(told, Policy("warn"))
    assert code in _codes(decision)
    assert (decision.open, decision.verdict) == (False, "unknown")


def test_a_skipped_check_with_a_fault_is_not_ignored():
    decision = decide(report([GOOD, Check("burn", "", (LOST,), skipped="stopped")]))
    assert (decision.open, decision.verdict) == (False, "fail")
    waived = decide(report([BAD, Check("burn", "", (LOST,), skipped="stopped")]), _policy(code="xid.79"))
    assert (waived.open, waived.verdict) == (False, "unknown")


def test_what_measured_nothing_did_not_run():
    assert decide(report([GOOD, Check("fabric", ""), SKIPPED])).ran == ("gpu",)


def test_of_two_that_weigh_the_same_the_one_that_names_a_part_stands_first():
    node = Finding("burn.died", "critical", NODE, "CUDA failed", "reset_gpu")
    gpu = Finding("xid.48", "critical", Subject("gpu", index=2), "double bit error", "reset_gpu")
    worse = Finding("gpu.lost", "critical", NODE, "gone", "replace")
    result = report([Check("burn", "a burn of 600 s", (node, gpu, worse))])
    assert [found["code"] for found in result["findings"]] == ["gpu.lost", "xid.48", "burn.died"]
    assert [found["code"] for found in decide(result).findings] == ["gpu.lost", "xid.48", "burn.died"]


def test_the_message_says_what_to_do_first_and_the_reasons_are_worst_first():
    decision = decide(report([Check("gpu", "8 GPUs", (WIDTH,)), BAD]))
    assert decision.message() == (
        "gate shut: reseat GPU 3 0000:c1:00 serial 1320523004417: has fallen off the bus (reseat the card and its riser); and 1 more"
    )
    assert "link width x4, x16 expected" in decision.reasons[1]


def test_the_message_of_an_open_gate_says_what_it_rests_on():
    decision = decide(report([SLOW, QUIET, SKIPPED]), _policy("warn", code="nothing.here"))
    assert decision.message() == "gate open: gpu, kernel_log ran; 1 warning accepted"
    assert decide(report([SLOW]), _policy(code="gpu.*")).message() == "gate open: gpu ran; 1 finding waived"


def test_a_hung_tool_is_one_reason_not_two():
    assert len(decide(report([BLIND])).reasons) == 1


@pytest.mark.parametrize(
    ("checks", "waiver", "is_open"),
    [
        pytest.param([SLOW], {"code": "gpu.pcie_*", "subject": "1320523004417"}, True, id="warning"),
        pytest.param([BAD], {"code": "xid.79", "subject": "gpu3"}, True, id="fault"),
        pytest.param([GOOD, BAD], {"code": "xid.79", "host": "gpu-0?"}, True, id="on this host"),
        pytest.param([BAD], {"code": "xid.79", "host": "gpu-1?"}, False, id="on another host"),
        pytest.param([BAD], {"code": "xid.7"}, False, id="another code"),
        pytest.param([SLOW, BAD], {"code": "gpu.*"}, False, id="one of two"),
        pytest.param([BAD], {"code": "xid.79", "until": "2026-06-30"}, True, id="last day"),
        pytest.param([BAD], {"code": "xid.79", "until": "2026-06-29"}, False, id="expired"),
        pytest.param([BLIND], {"code": "gpu.probe_hung"}, False, id="unknown is not covered by itself"),
        pytest.param([BLIND], {"code": "gpu.probe_hung", "unknown": True}, False, id="unknown covered, and still nothing measured"),
        pytest.param([Check("gpu", "7 GPUs", (HUNG,))], {"code": "gpu.probe_hung", "unknown": True}, True, id="unknown covered"),
        pytest.param([Check("gpu", "7 GPUs", (HUNG,))], {"code": "gpu.probe_hung"}, False, id="unknown with evidence, not covered"),
        pytest.param([Check("gpu", "", (LOST,))], {"code": "*"}, False, id="fault waived and nothing measured"),
        pytest.param([SKIPPED], {"code": "*", "unknown": True}, False, id="nothing ran"),
        pytest.param([Check("gpu", "")], {"code": "*", "unknown": True}, False, id="nothing measured"),
    ],
)
def test_waivers(checks, waiver, is_open):
    assert decide(report(checks), _policy(**waiver), "gpu-07").open is is_open


def test_what_the_gate_itself_finds_cannot_be_waived():
    policy = _policy(code="*", unknown=True, required=["fabric"])
    for told in ([None], [report([GOOD])], {**report([BAD]), "findings": []}, {**report([BAD]), "verdict": "pass"}):
        assert not decide(told, policy).open


def test_a_waived_finding_stays_in_the_report_and_stands_last():
    decision = decide(report([SLOW, BAD]), _policy("warn", code="xid.79", by="operations"), "gpu-07")
    assert (decision.open, decision.verdict, decision.action) == (True, "warn", "reseat")
    assert [(found["code"], found.get("waived"), found["host"]) for found in decision.findings] == [
        ("gpu.pcie_width", None, "gpu-07"),
        ("xid.79", {"reason": "accepted", "until": "2026-12-31", "by": "operations"}, "gpu-07"),
    ]


def test_information_needs_no_waiver():
    decision = decide(report([Check("gpu", "8 GPUs", (NOTED,))]), _policy(code="*"))
    assert "waived" not in decision.findings[0]


def test_an_expired_waiver_is_named_with_its_date():
    decision = decide(report([BAD]), _policy(code="xid.79", until="2026-05-31"))
    assert "its waiver expired on 2026-05-31" in decision.message()
    assert decision.findings[0]["waiver_expired"] == "2026-05-31"


def test_a_waiver_that_still_holds_counts_beside_an_expired_one():
    items = [{"code": "xid.79", "subject": "*", "reason": "r", "until": until} for until in ("2026-01-31", "2026-12-31", "2026-02-28")]
    decision = decide(report([BAD]), Policy(waivers=read_waivers(items, NOW)))
    assert decision.open
    assert "waiver_expired" not in decision.findings[0]


def test_notes_name_unused_far_and_too_weak_waivers():
    items = [
        {"code": "gpu.ecc_rate", "subject": "*", "reason": "r", "until": "2026-12-31"},
        {"code": "gpu.probe_hung", "subject": "*", "reason": "r", "until": "2030-01-01"},
        {"code": "*", "subject": "*", "reason": "r", "until": "2026-12-31", "host": "elsewhere"},
        {"code": "xid.43", "subject": "*", "reason": "r", "until": "2026-01-01"},
    ]
    decision = decide(report([BLIND, SKIPPED]), Policy(waivers=read_waivers(items, NOW)), "gpu-07")
    assert decision.notes == (
        "check burn did not run: not asked for",
        "waiver 2 (gpu.probe_hung on *) does not cover gpu.probe_hung on tool nvidia-smi, which could not be told: "
        "say unknown: true to accept that",
        "waiver 1 (gpu.ecc_rate on *) is unused: it covers no finding",
        "waiver 2 (gpu.probe_hung on *) runs until 2030-01-01, more than a year ahead",
        "waiver 4 (xid.43 on *) is unused: it covers no finding; it expired on 2026-01-01",
    )


def test_named_results_are_told_by_their_names():
    decision = decide_named({"health": report([GOOD]), "burn": Missing("it was not registered")})
    assert decision.message() == "gate shut: burn has no result: it was not registered"


def test_no_named_result_is_nothing_measured():
    assert decide_named({}).message().startswith("gate shut: nothing was measured")


def test_simulated_results_are_marked():
    assert decide([report([GOOD]), report([QUIET], simulated=True)]).simulated
    assert not decide(report([GOOD])).simulated


# The fleet


def _fleet(bad, total, **options):
    hosts = {"node-%d" % number: {"health": report([BAD if number <= bad else GOOD])} for number in range(1, total + 1)}
    return decide_fleet(hosts, options.pop("policy", Policy()), **options)


@pytest.mark.parametrize(
    ("bad", "total", "options", "is_open"),
    [
        pytest.param(0, 8, {}, True, id="all good"),
        pytest.param(2, 8, {}, True, id="exactly the share that is allowed"),
        pytest.param(3, 8, {}, False, id="above it"),
        pytest.param(1, 1, {}, True, id="one bad host is left to its own gate"),
        pytest.param(1, 2, {"min_bad_hosts": 1}, False, id="one bad host is enough when asked for"),
        pytest.param(8, 8, {"max_bad_pct": 100}, True, id="brake off"),
        pytest.param(2, 200, {"max_bad_pct": 0}, False, id="none allowed"),
        pytest.param(2, 200, {"max_bad_pct": float("nan")}, False, id="a limit that is no number brakes"),
        pytest.param(8, 8, {"policy": _policy(code="xid.79")}, True, id="waived on every host"),
    ],
)
def test_brake(bad, total, options, is_open):
    assert _fleet(bad, total, **options).open is is_open


def test_the_brake_says_how_many_and_what_they_share():
    fleet = _fleet(3, 8)
    assert fleet.message() == (
        "brake: 3 of 8 hosts (37.5 %) are bad, at most 25 % allowed; a common cause is more likely than 3 separate faults; "
        "nothing was changed; look first at xid.79, on 3 of them: has fallen off the bus"
    )
    assert fleet.reasons[1:] == ("xid.79 on 3 hosts (node-1, node-2, node-3): has fallen off the bus",)
    assert (fleet.bad, fleet.action, fleet.verdict) == (("node-1", "node-2", "node-3"), "reseat", "fail")
    assert [found["host"] for found in fleet.findings] == ["node-1", "node-2", "node-3"]


def test_hosts_that_share_nothing_are_told_so():
    fleet = decide_fleet({"a": {"r": report([BAD])}, "b": {"r": report([BLIND])}}, Policy())
    assert (fleet.common, len(fleet.reasons)) == ((), 1)
    assert fleet.message().endswith("look first at what they share")


def test_below_the_limit_the_fleet_says_the_share():
    assert _fleet(1, 8).message() == "fleet: 1 of 8 hosts (12.5 %) is bad"


def test_a_host_without_result_is_bad():
    gone = {"health": Missing("the host dropped out of the play")}
    fleet = decide_fleet({"a": {"health": report([GOOD])}, "b": gone, "c": gone}, Policy())
    assert (fleet.open, fleet.bad, fleet.verdict) == (False, ("b", "c"), "unknown")
    assert "gate.no_result, on 2 of them" in fleet.message()


def test_a_fleet_of_nobody_is_not_good():
    fleet = decide_fleet({}, Policy())
    assert (fleet.open, fleet.verdict, fleet.message()) == (False, "unknown", "brake: there is no host to judge")


def test_what_most_hosts_share_stands_first_and_accepted_warnings_are_no_cause():
    slow_and_lost = report([Check("gpu", "8 GPUs", (WIDTH, LOST))])
    hosts = {"a": {"r": slow_and_lost}, "b": {"r": slow_and_lost}, "c": {"r": report([BLIND])}, "d": {"r": report([BLIND, BAD])}}
    common = decide_fleet(hosts, Policy("warn")).common
    assert [(shared.code, shared.hosts) for shared in common] == [("xid.79", ("a", "b", "d")), ("gpu.probe_hung", ("c", "d"))]


def test_a_waiver_used_on_one_host_is_not_called_unused_and_equal_notes_are_told_once():
    hosts = {name: {"r": report([check, SKIPPED])} for name, check in (("a", GOOD), ("b", BAD), ("c", GOOD))}
    fleet = decide_fleet(hosts, _policy(code="xid.79"))
    assert fleet.notes == ("3 hosts: check burn did not run: not asked for",)
    assert "is unused" in decide_fleet(hosts, _policy(code="xid.48")).notes[-1]


# Nothing but positive evidence

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([*VERDICTS, "PASS"])
KEYS = st.sampled_from(["verdict", "checks", "findings", "results", "failed", "finished", "name", "evidence"]) | st.text(max_size=4)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=20)
WORDS = st.sampled_from([*VERDICTS, *["pass"] * 9, "warn", "ok", None])
NEAR_CHECK = st.fixed_dictionaries(
    {"name": st.sampled_from(["gpu", "kernel_log"]), "verdict": WORDS, "evidence": st.sampled_from(["8 GPUs"] * 5 + [""])},
    optional={"skipped": st.sampled_from(["", "not asked for"])},
)
NEAR_FINDING = st.fixed_dictionaries(
    {"code": st.just("x.y"), "check": st.sampled_from(["gpu", "fabric"]), "verdict": WORDS},
    optional={"severity": st.sampled_from(["info"] * 5 + ["warning", "critical", "bad"]), "subject": SCALARS, "action": SCALARS},
)
NEAR_RESULT = st.fixed_dictionaries(
    {"verdict": WORDS, "checks": st.lists(NEAR_CHECK, max_size=3), "findings": st.lists(NEAR_FINDING, max_size=2)},
    optional={flag: st.sampled_from([True, False, 0, 1]) for flag in ("failed", "skipped", "unreachable", "finished")},
)


def _is_positive(leaf, allowed):
    """Said once more, in other words than in the code under test."""
    if leaf.get("failed") or leaf.get("skipped") or leaf.get("unreachable") or not leaf.get("finished", 1):
        return False
    said = [leaf["verdict"], *(check["verdict"] for check in leaf["checks"])]
    severities = {"pass": ["info"], "warn": ["info", "warning"]}[allowed[-1]]
    return (
        len(said) > 1
        and all(word in (*allowed, "skip") for word in said)
        and all(check["evidence"] or check["verdict"] == "skip" for check in leaf["checks"])
        and all(found["verdict"] in (*allowed, "skip") and found.get("severity") in severities for found in leaf["findings"])
    )


@settings(max_examples=150, deadline=None)
@given(JSON, st.sampled_from(["pass", "warn"]))
def test_no_json_raises_or_opens(given, worst):
    decision = decide(given, Policy(worst))
    assert not decision.open
    assert decision.reasons
    json.dumps([decision.message(), decision.findings])


@settings(max_examples=200, deadline=None)
@given(st.lists(NEAR_RESULT, min_size=1, max_size=2) | NEAR_RESULT, st.sampled_from([("pass",), ("pass", "warn")]))
def test_what_is_nearly_a_result_opens_only_on_positive_evidence(given, allowed):
    decision = decide(given, Policy(allowed[-1]))
    leaves = given if isinstance(given, list) else [given]
    positive = all(_is_positive(leaf, allowed) for leaf in leaves)
    ran = any(check["verdict"] != "skip" for leaf in leaves for check in leaf["checks"])
    assert (positive and ran) or not decision.open
    assert bool(decision.reasons) is not decision.open
    assert decision.verdict in allowed if decision.open else decision.verdict != "pass"


FINDINGS = st.lists(st.sampled_from([NOTED, WIDTH, LOST, HUNG]), max_size=3).map(tuple)
CHECKS = st.lists(
    st.builds(Check, st.sampled_from(["gpu", "kernel_log", "burn"]), st.sampled_from(["8 GPUs", ""]), FINDINGS) | st.just(SKIPPED),
    max_size=3,
    unique_by=lambda check: check.name,
)


@settings(max_examples=150, deadline=None)
@given(CHECKS, st.sampled_from([("pass",), ("pass", "warn")]))
def test_a_report_of_ours_opens_exactly_when_its_own_verdict_is_accepted(checks, allowed):
    told = report(checks)
    decision = decide(told, Policy(allowed[-1]))
    assert decision.open is (told["verdict"] in allowed)
    if told["verdict"] != "skip":
        assert decision.verdict == told["verdict"]
    assert not any(code in ("gate.contradiction", "gate.unexplained") for code in _codes(decision))


@settings(max_examples=60, deadline=None)
@given(CHECKS)
def test_a_waiver_for_everything_opens_exactly_where_every_check_measured_something(checks):
    asked = [check for check in checks if not check.skipped]
    decision = decide(report(checks), _policy(code="*", unknown=True))
    assert decision.open is (bool(asked) and all(check.evidence for check in asked))


def test_nothing_in_a_node_finding_breaks_a_sentence():
    decision = decide(report([Check("gpu", "8 GPUs", (Finding("x", "critical", NODE, "100 % of %s\n\x1b[2J", "reboot_node"),))]))
    assert decision.message().startswith("gate shut: reboot the node: 100 % of %s [2J (")
