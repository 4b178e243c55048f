# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import stat
import sys

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._probe import dryrun


def _python(folder, body):
    folder.mkdir(exist_ok=True)
    path = folder / "python3"
    path.write_text("#!/bin/sh\n%s\n" % body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("body", "torch", "problem"),
    [
        pytest.param("""echo '{"executable": "x", "torch": "2.9.1"}'""", "2.9.1", "", id="there"),
        pytest.param("""echo '{"executable": "x", "torch": null}'""", None, "", id="not there"),
        pytest.param("""echo warning; echo '{"torch": "2.9.1"}'""", "2.9.1", "", id="something printed before"),
        pytest.param("echo 'ModuleNotFoundError: x' >&2; exit 1", None, "did not answer: ModuleNotFoundError: x", id="it fails"),
        pytest.param("exit 3", None, "did not answer: status 3", id="it fails without a word"),
        pytest.param("echo '[1'", None, "did not answer", id="garbled"),
        pytest.param("sleep 60", None, "and was killed", id="it hangs"),
    ],
)
def test_a_python_is_asked(tmp_path, body, torch, problem):
    found = dryrun.ask(_python(tmp_path / "bin", body), 1.0)
    assert found.torch == torch
    assert problem in found.problem
    assert bool(found.problem) == bool(problem)


def test_the_question_is_answered_by_a_real_python(tmp_path, monkeypatch):
    package = tmp_path / "torch"
    package.mkdir()
    # PyTorch itself is not imported for it.
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "version.py").write_text("__version__ = '2.77.0'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert dryrun.ask(sys.executable, 20) == dryrun.Python(sys.executable, "2.77.0")


def test_every_python_on_the_path_is_asked_once(tmp_path, monkeypatch):
    first, second = (_python(tmp_path / name, "exit 0") for name in ("a", "b"))
    monkeypatch.setenv("PATH", os.pathsep.join(os.path.dirname(path) for path in (first, second, first)))
    assert [path for path in dryrun.pythons(None) if path.startswith(str(tmp_path))] == [first, second]
    assert dryrun.pythons(second) == [second]
    assert dryrun.pythons("no_such_python") == ["no_such_python"]


def test_a_folder_holds_the_job_and_goes_when_it_is_done():
    with dryrun.Folder() as folder:
        folder.write({"steps": 3})
        with open(folder.job, encoding="utf-8") as handle:
            assert "class Job" in handle.read()
        with open(folder.spec, encoding="utf-8") as handle:
            assert json.load(handle) == {"steps": 3, "results_path": folder.path}
        assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o700
    assert not os.path.exists(folder.path)


def test_a_folder_to_keep_is_one_for_each_run(tmp_path):
    paths = set()
    for _run in range(2):
        with dryrun.Folder(str(tmp_path / "kept")) as folder:
            paths.add(folder.path)
    assert len(paths) == 2
    assert all(os.path.isdir(path) for path in paths)


def test_what_the_ranks_left_is_read_by_number(tmp_path):
    with dryrun.Folder(str(tmp_path)) as folder:
        for name, text in (("rank_0.jsonl", "a"), ("rank_11.jsonl", "b\xff"), ("rank_0.log", "c"), ("rank_x.log", "d"), ("spec.json", "e")):
            with open(os.path.join(folder.path, name), "wb") as handle:
                handle.write(text.encode("latin-1"))
        assert folder.records() == {0: "a", 11: "b\ufffd"}
        assert folder.logs() == {0: "c"}


def test_of_a_log_gone_mad_the_end_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(dryrun, "_MOST_BYTES", 4)
    with dryrun.Folder(str(tmp_path)) as folder:
        with open(os.path.join(folder.path, "rank_0.log"), "w") as handle:
            handle.write("0123456789")
        assert folder.logs() == {0: "6789"}


def test_the_state_of_a_process():
    assert dryrun.process_state(os.getpid()) == "R"
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert dryrun.process_state(child) == "Z"
    os.waitpid(child, 0)
    assert dryrun.process_state(child) == "gone"
