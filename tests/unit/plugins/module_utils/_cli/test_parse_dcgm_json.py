# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._cli.parse_dcgm_json import answer
from hypothesis import given, settings
from hypothesis import strategies as st


def _error(number, severity=4, text="something"):
    return {"warning": text, "error_id": number, "error_category": 1, "error_severity": severity}


def _test(name, *statuses, errors=(), of=0):
    results = [{"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": status} for gpu, status in enumerate(statuses)]
    if errors:
        results[of]["warnings"] = list(errors)
    worst = "Fail" if "Fail" in statuses else statuses[0]
    return {"name": name, "results": results, "test_summary": {"status": worst}}


def _document(*tests, gpus=2):
    entities = [{"entity_id": gpu, "serial_num": "13250%d" % gpu, "device_id": "2330"} for gpu in range(gpus)]
    return {
        "DCGM Diagnostic": {
            "test_categories": [
                {"category": "Deployment", "tests": [_test("software", *["Pass"] * gpus)]},
                {"category": "Hardware", "tests": list(tests)},
            ]
        },
        "entity_groups": [{"entity_group": "GPU", "entity_group_id": 1, "entities": entities}],
        "metadata": {"version": "4.4.1", "Driver Version Detected": "580.95.05"},
    }


_MEMORY = _test("memory", "Pass", "Pass")
# jsoncpp's styled writer: tabs, and a blank before the colon.
_GOOD = json.dumps(_document(_MEMORY), indent="\t", separators=(",", " : "))


def test_a_healthy_node_passes():
    told = answer("Defaulted container x\n" + _GOOD + "\nSuccessfully ran diagnostic for group.\n", 0)
    assert told["verdict"] == "pass"
    assert (told["executed"], told["skipped"], told["not_run"], told["config_only"], told["parse_error"]) == (2, 0, [], False, False)
    assert (told["dcgm_version"], told["driver_version"]) == ("4.4.1", "580.95.05")
    assert [(test["name"], test["category"], test["status"]) for test in told["tests"]] == [
        ("software", "Deployment", "pass"),
        ("memory", "Hardware", "pass"),
    ]
    assert [(entity["group"], entity["id"], entity["status"]) for entity in told["tests"][1]["entities"]] == [
        ("GPU", 0, "pass"),
        ("GPU", 1, "pass"),
    ]


@pytest.mark.parametrize("indent", [None, "\t"])
def test_no_beginning_of_a_good_document_passes(indent):
    text = json.dumps(_document(_MEMORY), indent=indent)
    assert [end for end in range(len(text)) if answer(text[:end], 0)["verdict"] == "pass"] == []


@pytest.mark.parametrize("indent", [None, "\t"])
def test_no_end_of_a_good_document_of_several_iterations_passes(indent):
    text = json.dumps({"iterations": [_document(_MEMORY)] * 2, "Overall Result": "Pass"}, indent=indent)
    assert answer(text, 0)["verdict"] == "pass"
    assert [start for start in range(1, len(text), 3) if answer(text[start:], 0)["verdict"] == "pass"] == []


def _verdict(*tests, rc=0, gpus=2):
    return answer(json.dumps(_document(*tests, gpus=gpus)), rc)


@pytest.mark.parametrize(
    ("told", "verdict", "config_only"),
    [
        pytest.param(_verdict(_MEMORY, rc=None), "pass", False, id="status not known"),
        pytest.param(_verdict(_MEMORY, rc=226), "unknown", False, id="a bad status that nothing explains"),
        pytest.param(_verdict(_MEMORY, rc=205), "fail", False, id="isolate, and nothing shows which"),
        pytest.param(_verdict(_MEMORY, rc=203), "unknown", False, id="killed"),
        pytest.param(_verdict(_MEMORY, rc=-30), "unknown", False, id="the status as dcgmReturn_t"),
        pytest.param(_verdict(_test("memory", "Pass", "Fail")), "fail", False, id="a failure without a reason, status 0"),
        pytest.param(_verdict(_test("memory", "Pass", "Fail", errors=[_error(52, 2)], of=1), rc=205), "fail", False, id="faulty memory"),
        pytest.param(_verdict(_test("s", "Fail", "Pass", errors=[_error(29, 5)]), rc=226), "warn", True, id="persistence mode only"),
        pytest.param(_verdict(_test("s", "Fail", "Pass", errors=[_error(29, 5)]), rc=205), "fail", True, id="persistence mode and isolate"),
        pytest.param(
            _verdict(_test("s", "Fail", "Pass", errors=[_error(29, 2)]), rc=226), "fail", False, id="a setting that DCGM isolates for"
        ),
        pytest.param(
            _verdict(_test("s", "Fail", "Pass", errors=[_error(47, 5)]), rc=226), "fail", False, id="aborted looks like a setting"
        ),
        pytest.param(
            _verdict(_test("pcie", "Fail", "Pass", errors=[_error(46, 5)]), rc=226), "fail", False, id="narrow PCIe link is no setting"
        ),
        pytest.param(
            _verdict(_test("s", "Fail", "Pass", errors=[_error(29, 5), _error(52, 2)]), rc=226), "fail", False, id="a setting and a fault"
        ),
        pytest.param(_verdict(_test("t", "Fail", "Pass", errors=[_error(42, 1)]), rc=226), "fail", False, id="monitor, and yet it failed"),
        pytest.param(
            _verdict(_test("t", "Fail", "Pass", errors=[_error(4711, 0)]), rc=226), "fail", False, id="a number newer than the table"
        ),
        pytest.param(_verdict(_test("t", "Pass", "Pass", errors=[_error(56)])), "warn", False, id="an error inside a pass"),
        pytest.param(_verdict(_test("t", "Pass", "Pass", errors=[_error(52, 2)])), "fail", False, id="faulty memory inside a pass"),
        pytest.param(_verdict(_test("t", "Warn", "Pass")), "warn", False, id="warn is neither"),
        pytest.param(_verdict(_test("t", "", "Pass")), "unknown", False, id="an empty status"),
        pytest.param(
            _verdict(_MEMORY, _test("eud", "Skip", "Skip", errors=[_error(117, 5)])), "pass", False, id="skipped everywhere, and why"
        ),
        pytest.param(_verdict(_test("t", "Skip", "Pass")), "unknown", False, id="skipped on one GPU"),
        pytest.param(_verdict(_MEMORY, {"name": "eud"}), "unknown", False, id="did not run"),
        pytest.param(_verdict(_test("memory", "Pass", "Pass"), gpus=3), "unknown", False, id="one GPU is missing from a test"),
        pytest.param(
            _verdict(_test("t", "Fail", "Pass", errors=[_error(40, 1, "thermal violations totaling 0.0 seconds for GPU 0")]), rc=226),
            "unknown",
            False,
            id="slowed by heat for 0.0 seconds",
        ),
        pytest.param(
            _verdict(_test("t", "Fail", "Pass", errors=[_error(40, 1, "thermal violations totaling 10.0 seconds for GPU 0")]), rc=226),
            "fail",
            False,
            id="slowed by heat for 10.0 seconds",
        ),
        pytest.param(
            _verdict(_test("t", "Fail", "Pass", errors=[_error(33, 2, "Detected 9223372036854775794 x for GPU 0")]), rc=226),
            "unknown",
            False,
            id="a blank value taken for a count",
        ),
    ],
)
def test_verdicts(told, verdict, config_only):
    assert (told["verdict"], told["config_only"]) == (verdict, config_only)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        pytest.param("", "unknown", id="empty"),
        pytest.param('{"DCGM Diagnostic":{"version":"4.2.3"}}', "unknown", id="nothing but a version"),
        pytest.param('{"DCGM Diagnostic":{"version":"4.2.3","runtime_error":"no GPU"}}', "unknown", id="could not run"),
        pytest.param('{"DCGM Diagnostic":{"test_categories":[]}}', "unknown", id="no test at all"),
        pytest.param(_GOOD.replace('"Pass"', '"Skip"'), "unknown", id="everything skipped"),
        pytest.param(_GOOD.replace('"name" : "memory",', ""), "unknown", id="a test without a name"),
        pytest.param(_GOOD + '{"DCGM Diagnostic":{"runtime_error":"x"}}', "unknown", id="a second document could not run"),
        pytest.param(
            json.dumps({"iterations": [_document(_MEMORY)] * 2, "Overall Result": "Fail"}), "unknown", id="overall fail, nothing shows why"
        ),
        pytest.param(_GOOD.replace("Pass", "Skip").replace("Skip", "Pass", 3), "unknown", id="everything but the software skipped"),
        pytest.param("| memory | Pass - All |", "unknown", id="the table for people is no document"),
        pytest.param("| memory | Fail - GPU: 3 |", "fail", id="and yet its failures are"),
    ],
)
def test_what_is_no_proof(text, verdict):
    assert answer(text, 0)["verdict"] == verdict


def test_a_cut_document_with_a_fault_fails():
    text = json.dumps(_document(_test("memory", "Pass", "Fail", errors=[_error(52, 2)], of=1), _MEMORY))
    told = answer(text[:-40], 205)
    assert (told["verdict"], told["parse_error"]) == ("fail", True)
    assert [test["name"] for test in told["tests"]] == ["memory"]


def test_iterations_are_judged_one_by_one():
    bad = _document(_test("memory", "Pass", "Fail", errors=[_error(52, 2)], of=1))
    told = answer(json.dumps({"iterations": [_document(_MEMORY), bad], "Overall Result": "Fail", "Warning": "x"}), 205)
    assert [item["verdict"] for item in told["iterations"]] == ["pass", "fail"]
    assert [(entity["id"], entity["status"]) for entity in told["tests"][1]["entities"]] == [(0, "pass"), (1, "fail")]
    # dcgmi prints the document before it in place of one that could not be made.
    told = answer(json.dumps({"iterations": [_document(_MEMORY)] * 2, "Overall Result": "Fail"}), 226)
    assert [item["verdict"] for item in told["iterations"]] == ["pass", "unknown"]


def test_an_error_of_no_gpu_hides_no_gpu():
    test = _test("memory", "Pass", "Pass")
    test["test_summary"] = {"status": "Fail", "warnings": [_error(44)]}
    told = _verdict(test, rc=226)
    assert told["verdict"] == "fail"
    entities = told["tests"][1]["entities"]
    assert [(entity["id"], entity["status"]) for entity in entities] == [(0, "pass"), (1, "pass"), (None, None)]
    assert entities[2]["errors"][0]["id"] == 44


def test_a_finding_names_the_card_by_its_serial():
    told = _verdict(_test("memory", "Pass", "Fail", errors=[_error(52, 2, "2 faulty cells")], of=1), rc=205)
    (finding,) = told["findings"]
    assert (finding["code"], finding["action"], finding["subject"]["serial"]) == ("dcgm.52", "replace", "132501")
    assert finding["message"] == "memory on GPU 1 serial 132501 failed: 2 faulty cells (FAULTY_MEMORY)"


@settings(max_examples=80)
@given(st.text(max_size=30), st.integers(0, len(_GOOD)), st.integers(0, 40))
def test_garbage_in_a_good_document_never_raises(garbage, place, lost):
    json.dumps(answer(_GOOD[:place] + garbage + _GOOD[place + lost :], 0), allow_nan=False)
