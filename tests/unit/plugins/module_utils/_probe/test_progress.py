# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import time

from ansible_collections.kentino.gpu.plugins.module_utils._probe import progress


def test_progress_is_one_object_with_its_process_and_time(tmp_path):
    path = tmp_path / "run" / "burn.json"
    assert progress.write(str(path), {"step": "burn", "percent": 12.5}) is None
    told = json.loads(path.read_text())
    assert (told["step"], told["percent"], told["pid"]) == ("burn", 12.5, os.getpid())
    assert abs(told["updated_usec"] / 1e6 - time.time()) < 60
    assert os.listdir(path.parent) == ["burn.json"]


def test_a_reader_always_finds_a_whole_one(tmp_path):
    path = tmp_path / "burn.json"
    progress.write(str(path), {"percent": 1})
    before = path.read_bytes()
    reader = path.open("rb")
    progress.write(str(path), {"percent": 2})
    assert reader.read() == before
    reader.close()
    assert json.loads(path.read_text())["percent"] == 2


def test_why_it_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    complaint = progress.write(str(tmp_path / "file" / "burn.json"), {})
    assert complaint is not None
    assert "file/burn.json" in complaint


def test_it_is_below_the_nodes_root(tmp_path, monkeypatch):
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path))
    progress.write("/run/burn.json", {})
    assert (tmp_path / "run/burn.json").exists()
