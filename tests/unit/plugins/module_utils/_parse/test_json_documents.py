# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.json_documents import documents
from hypothesis import given, settings
from hypothesis import strategies as st


def _any_object(value):
    return True


def _has_mark(value):
    return "mark" in value


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=60)
@given(st.dictionaries(st.text(max_size=5), _VALUES, max_size=4), st.sampled_from([None, 2, "\t"]))
def test_what_json_writes_is_read_back(value, indent):
    (document,) = documents("noise\n" + json.dumps(value, indent=indent) + "\nmore", _any_object)
    assert document.value == value
    assert document.complete


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=5), _VALUES, min_size=1, max_size=4), st.data())
def test_a_cut_document_is_never_complete(value, data):
    text = json.dumps(value)
    cut = data.draw(st.integers(1, len(text) - 1))
    assert not any(document.complete and document.value == value for document in documents(text[:cut], _any_object))


@settings(max_examples=150)
@given(st.text(alphabet='{}[]:,"\\ \n0a1.-etrufalsn', max_size=60))
def test_no_text_raises(text):
    documents(text, _any_object)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("error: no such host", [], id="no JSON"),
        pytest.param('{"mark": 1}', [({"mark": 1}, True)], id="alone"),
        pytest.param('a {b} {"mark": 1} }', [({"mark": 1}, True)], id="braces in prose"),
        pytest.param('{"mark": 1}{"other": 2}\n{"mark": 3}', [({"mark": 1}, True), ({"mark": 3}, True)], id="several"),
        pytest.param('{"stdout": {"mark": [1, 2]}}', [({"mark": [1, 2]}, True)], id="inside a wrapper"),
        pytest.param('{"mark": {"mark": 2}}', [({"mark": {"mark": 2}}, True)], id="the outer one of two"),
        pytest.param('{"mark": [1, 2', [({"mark": [1]}, False)], id="cut in a number"),
        pytest.param('{"mark": "ab', [], id="cut in the only value"),
        pytest.param('{"mark": 1,}', [({"mark": 1}, False)], id="comma before the brace"),
        pytest.param('{"mark": 1 "b": 2}', [({"mark": 1}, False)], id="comma lost"),
        pytest.param('{"mark": 1 noise {"mark": 2}', [({"mark": 1}, False), ({"mark": 2}, True)], id="other text inside, then another"),
        pytest.param('{"mark": [inf, -inf, NaN, 1e999]}', [({"mark": [None] * 4}, True)], id="values that are not finite"),
        pytest.param('{"mark": 1]', [({"mark": 1}, False)], id="closed with the wrong bracket"),
        pytest.param('{"mark": tru}', [({}, False)][1:], id="word that is none"),
        pytest.param('{"mark": "a\\"\\u00e9\\/b\n"}', [({"mark": 'a"é/b\n'}, True)], id="escapes and a raw line end"),
        pytest.param('{"mark": ' + "9" * 5000 + "}", [], id="number of five thousand digits"),
    ],
)
def test_documents(text, found):
    assert [(document.value, document.complete) for document in documents(text, _has_mark)] == found


def test_deep_nesting_is_given_up_and_does_not_raise():
    assert not any(document.complete for document in documents('{"mark":' * 5000, _has_mark))


def test_half_a_document_repeated_is_read_in_one_pass():
    # Reading again from every brace would take minutes.
    documents('{"a":[' * 20000, _has_mark)


def test_the_place_of_a_document():
    (document,) = documents('xx{"mark":1}yy', _has_mark)
    assert (document.start, document.end) == (2, 12)
