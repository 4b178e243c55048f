# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.dcgm_diag import DiagError, DiagResult, parse
from hypothesis import given, settings
from hypothesis import strategies as st


def _document(*tests, root="DCGM Diagnostic", **beside):
    return {root: {"test_categories": [{"category": "Hardware", "tests": list(tests)}]}, **beside}


def _test(text):
    (run,) = parse(text if isinstance(text, str) else json.dumps(text)).runs
    (test,) = run.tests
    return test


@pytest.mark.parametrize(
    ("root", "result", "results"),
    [
        pytest.param(
            "DCGM GPU Diagnostic",
            {"gpu_ids": "2", "status": "Pass", "info": "GPU 2 allocated 31 GB"},
            (DiagResult("GPU", 2, "pass", (), ("GPU 2 allocated 31 GB",)),),
            id="2.x",
        ),
        pytest.param("DCGM GPU Diagnostic", {"status": "Pass"}, (DiagResult(None, None, "pass"),), id="2.x Deployment: of no GPU"),
        pytest.param(
            "DCGM GPU Diagnostic",
            {"gpu_ids": "0", "status": "Fail", "warnings": "bad"},
            (DiagResult("GPU", 0, "fail", (DiagError(None, None, None, "bad"),)),),
            id="2.x: a warning without a number",
        ),
        pytest.param(
            "DCGM GPU Diagnostic",
            {"gpu_ids": "0", "status": "Fail", "warnings": "bad", "error_id": 52},
            (DiagResult("GPU", 0, "fail", (DiagError(52, None, None, "bad"),)),),
            id="3.2: the number beside the text",
        ),
        pytest.param(
            "DCGM GPU Diagnostic",
            {
                "gpu_id": "7",
                "status": "Fail",
                "warnings": [None, {"warning": "bad", "error_id": 52, "error_category": 10, "error_severity": 2}],
            },
            (DiagResult("GPU", 7, "fail", (DiagError(52, 2, 10, "bad"),)),),
            id="3.3: objects, and a hole",
        ),
        pytest.param(
            "DCGM GPU Diagnostic",
            {"gpu_id": 3, "status": "Fail", "warnings": [{"warnings": "bad", "error_id": 29, "error_category": 8, "error_severity": 5}]},
            (DiagResult("GPU", 3, "fail", (DiagError(29, 5, 8, "bad"),)),),
            id="3.3 Deployment: another key, the id a number",
        ),
        pytest.param("DCGM GPU Diagnostic", {"gpu_id": -1, "status": "Pass"}, (DiagResult(None, None, "pass"),), id="3.3: of no GPU"),
        pytest.param("DCGM GPU Diagnostic", {"cpu_id": "1", "status": "Pass"}, (DiagResult("CPU", 1, "pass"),), id="3.3: a CPU"),
        pytest.param(
            "DCGM Diagnostic",
            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 5, "status": "Skip", "info": ["a", "b"]},
            (DiagResult("GPU", 5, "skip", (), ("a", "b")),),
            id="4.x",
        ),
        pytest.param(
            "DCGM Diagnostic",
            {"entity_group": "NvSwitch", "entity_group_id": 4, "entity_id": 0, "status": "Pass"},
            (DiagResult("NvSwitch", 0, "pass"),),
            id="4.x: a switch is no GPU",
        ),
        pytest.param(
            "DCGM Diagnostic",
            {"gpu_ids": "0,2", "status": "WARN"},
            (DiagResult("GPU", 0, "warn"), DiagResult("GPU", 2, "warn")),
            id="nvvs: several GPUs in one result",
        ),
        pytest.param(
            "DCGM Diagnostic",
            {"gpu_ids": [1, "4"], "status": "Pass"},
            (DiagResult("GPU", 1, "pass"), DiagResult("GPU", 4, "pass")),
            id="list",
        ),
        pytest.param("DCGM Diagnostic", {"gpu_id": "0"}, (DiagResult("GPU", 0, "unknown"),), id="no status"),
    ],
)
def test_results_of_every_version(root, result, results):
    assert _test(_document({"name": "memory", "results": [result]}, root=root)).results == results


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("Pass", "pass"),
        ("PASS", "pass"),
        ("fail", "fail"),
        ("Warn", "warn"),
        ("SKIPPED", "skip"),
        ("Not Run", "not_run"),
        ("NOT_RUN", "not_run"),
        ("", "unknown"),
        (None, "unknown"),
        (0, "unknown"),
        ("Passed with errors", "unknown"),
    ],
)
def test_status_words(word, status):
    assert _test(_document({"name": "m", "results": [{"gpu_id": "0", "status": word}]})).status == status


@pytest.mark.parametrize(
    ("test", "status"),
    [
        pytest.param({"name": "m"}, "not_run", id="only a name"),
        pytest.param({"name": "m", "results": []}, "not_run", id="no results"),
        pytest.param({"name": "m", "results": [None, None]}, "not_run", id="only holes"),
        pytest.param(
            {"name": "m", "results": [{"gpu_id": "0", "status": "Pass"}, None, {"gpu_id": "2", "status": "Fail"}]}, "fail", id="one of two"
        ),
        pytest.param(
            {"name": "m", "results": [{"gpu_id": "0", "status": "Pass"}, {"gpu_id": "1", "status": "?"}]}, "unknown", id="one unreadable"
        ),
        pytest.param(
            {"name": "m", "results": [{"gpu_id": "0", "status": "Pass"}], "test_summary": {"status": "Fail"}}, "fail", id="summary fails"
        ),
        pytest.param({"name": "m", "test_summary": {"status": "Skip"}}, "skip", id="only a summary"),
    ],
)
def test_a_test_is_as_good_as_its_worst_result(test, status):
    assert _test(_document(test)).status == status


def test_an_error_that_the_summary_repeats_is_one_error():
    error = {"warning": "bad", "error_id": 52, "error_category": 10, "error_severity": 2}
    lone = {"warning": "node", "error_id": 44, "error_category": 16, "error_severity": 4}
    test = _test(
        _document(
            {
                "name": "m",
                "results": [{"entity_group": "GPU", "entity_id": 1, "status": "Fail", "warnings": [error]}],
                "test_summary": {"status": "Fail", "warnings": [error, lone], "info": ["note"]},
            }
        )
    )
    assert test.results[0].errors == (DiagError(52, 2, 10, "bad"),)
    assert test.errors == (DiagError(44, 4, 16, "node"),)
    assert test.info == ("note",)


@pytest.mark.parametrize(
    ("document", "dcgm", "driver", "entities"),
    [
        pytest.param(
            {
                "DCGM GPU Diagnostic": {
                    "version": "3.3.5",
                    "Driver Version Detected": "535.1",
                    "GPU Device IDs": ["2330"],
                    "GPU Device Serials": {"0": "165"},
                }
            },
            "3.3.5",
            "535.1",
            {("GPU", 0): "165"},
            id="3.3",
        ),
        pytest.param(
            {
                "DCGM Diagnostic": {"test_categories": []},
                "metadata": {"version": "4.2.3", "Driver Version Detected": "580.2"},
                "entity_groups": [
                    {"entity_group": "GPU", "entities": [{"entity_id": 4, "serial_num": "<<<NOT_SUPPORTED>>>", "device_id": "2e12"}]},
                    {"entity_group": "CPU", "entities": [{"entity_id": 0}]},
                ],
            },
            "4.2.3",
            "580.2",
            {("GPU", 4): None, ("CPU", 0): None},
            id="4.x, serial not supported",
        ),
        pytest.param({"DCGM GPU Diagnostic": {"test_categories": []}}, None, None, {}, id="2.x says nothing of itself"),
    ],
)
def test_versions_and_entities(document, dcgm, driver, entities):
    (run,) = parse(json.dumps(document)).runs
    assert (run.dcgm_version, run.driver_version, dict(run.entities)) == (dcgm, driver, entities)


def test_iterations():
    document = {
        "iterations": [_document({"name": "m", "test_summary": {"status": "Pass"}}), None],
        "Overall Result": "Fail",
        "Warning": "why",
    }
    record = parse(json.dumps(document))
    assert [(run.iteration, len(run.tests)) for run in record.runs] == [(1, 1), (2, 0)]
    assert (record.overall, record.overall_warning, record.complete) == ("Fail", "why", True)


def test_a_multi_node_document():
    result = {"host_id": 1, "entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"}
    document = {
        "DCGM Diagnostic": "DCGM Multi-Node Diagnostic",
        "hosts": [{"host_id": 0, "dcgm_version": "4.4.0", "driver_version": "580.1"}],
        "global_errors": [{"warning": "lost", "error_id": 26}],
        "test_categories": [{"category": "Multi-Node Tests", "tests": [{"name": "mnubergemm", "status": "Pass", "results": [result]}]}],
    }
    (run,) = parse(json.dumps(document)).runs
    assert run.tests[0].results == (DiagResult("GPU", 0, "pass", host=1),)
    assert (run.dcgm_version, run.driver_version, run.errors) == ("4.4.0", "580.1", (DiagError(26, None, None, "lost"),))


_PASSED = json.dumps(_document({"name": "m", "results": [{"gpu_id": "0", "status": "Pass"}]}))


@pytest.mark.parametrize(
    ("text", "runs", "complete"),
    [
        pytest.param("Defaulted container x\n" + _PASSED + "\nSuccessfully ran diagnostic for group.\n", 1, True, id="text around"),
        pytest.param("\x1b[32m" + _PASSED.replace(",", ",\r\n\t") + "\x1b[0m", 1, True, id="colours and CRLF"),
        pytest.param(_PASSED + _PASSED, 2, True, id="two documents"),
        pytest.param("[" + _PASSED + ",\n" + _PASSED + "]", 2, True, id="a list of documents"),
        pytest.param(json.dumps({"node-a": json.loads(_PASSED), "node-b": json.loads(_PASSED)}), 2, True, id="by node"),
        pytest.param(_PASSED + "\n" + _PASSED[:-3], 2, False, id="the second was cut"),
        pytest.param(_PASSED[:-1], 1, False, id="the last brace is missing"),
        pytest.param(_PASSED[1:], 1, False, id="the first brace is missing"),
        pytest.param(
            json.dumps({"iterations": [json.loads(_PASSED)] * 2, "Overall Result": "Pass"})[20:], 2, False, id="the first iteration was cut"
        ),
        pytest.param("", 0, False, id="empty"),
        pytest.param("Error: unable to connect to host engine", 0, False, id="no document"),
        pytest.param('{"results": [1]}', 0, False, id="a document of something else"),
    ],
)
def test_where_documents_are_and_whether_they_are_whole(text, runs, complete):
    record = parse(text)
    assert (len(record.runs), record.complete) == (runs, complete)


def test_a_cut_document_keeps_the_faults_and_no_pass():
    good = {"name": "pcie", "results": [{"gpu_id": "0", "status": "Pass"}]}
    bad = {
        "name": "memory",
        "results": [{"gpu_id": "0", "status": "Pass"}, {"gpu_id": "1", "status": "Fail", "warnings": [{"error_id": 52}]}],
    }
    text = json.dumps(_document(good, bad, good))
    (run,) = parse(text[: text.rindex("pcie")]).runs
    assert [(test.name, test.status) for test in run.tests] == [("memory", "fail")]


def test_of_the_table_for_people_only_the_failures_are_read():
    (run,) = parse(
        "| GPU Memory                | Pass - GPUs: 0, 1                              |\n"
        "|                           | Fail - GPUs: 2, 3                              |\n"
        "| Warning                   | GPU 2 is bad                                   |\n"
        "| pcie                      | Pass                                           |\n"
        "|                           | GPU0: Pass                                     |\n"
        "|                           | GPU1: Fail                                     |\n"
    ).runs
    assert not run.complete
    assert [(test.name, [result.id for result in test.results]) for test in run.tests] == [("GPU Memory", [2, 3]), ("pcie", [1])]


def test_lines_beside_the_document_are_kept():
    assert parse("one\n" + _PASSED + "\n two\n").unrecognised == ("one", "two")


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        ("Value = 9223372036854775794.", True),
        ("Detected 2147483632 replays", True),
        ("Detected 2147483631 replays", False),
        ("Detected 12147483632 replays", False),
    ],
)
def test_values_that_stand_for_unreadable(text, blank):
    assert DiagError(1, None, None, text).blank is blank


_KEYS = st.sampled_from(
    (
        *("DCGM Diagnostic", "DCGM GPU Diagnostic", "test_categories", "tests", "name", "results", "status", "warnings", "error_id"),
        *("gpu_ids", "entity_id", "entity_group", "iterations", "Overall Result", "metadata", "version", "info", "test_summary"),
        *("entity_groups", "entities", "x"),
    )
)
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["Pass", "Fail", "0", "GPU", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150)
@given(_ANY)
def test_no_document_raises_whatever_its_shape(value):
    parse(json.dumps({"DCGM Diagnostic": {"test_categories": value}, "entity_groups": value, "metadata": value}))
    parse(json.dumps({"test_categories": [{"tests": [{"name": value, "results": value, "test_summary": value}]}], "hosts": value}))
    parse(json.dumps({"iterations": [value], "Overall Result": value}))


@settings(max_examples=50)
@given(st.text(max_size=40))
def test_no_text_raises(text):
    parse(text)
