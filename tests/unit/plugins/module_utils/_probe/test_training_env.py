# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import stat

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._probe import preflight_run
from ansible_collections.kentino.gpu.plugins.module_utils._probe import training_env as probe


@pytest.fixture
def node(tmp_path):
    """Writes files of a node: C(node("/etc/profile", "export NCCL_DEBUG=INFO"))."""

    def write(path, text):
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return str(tmp_path)

    return write


def test_login_shells_read_what_comes_behind_ours_later(node):
    for path in ("/etc/profile", "/etc/profile.d/aa.sh", "/etc/profile.d/zz.sh", "/etc/bash.bashrc", "/etc/environment", "/etc/nccl.conf"):
        root = node(path, "NCCL_DEBUG=INFO")
    node("/etc/profile.d/locale.sh", "export LANG=C")
    found = {source.path: (source.place, source.kind, source.later) for source in probe.files(root)}
    assert found == {
        "/etc/environment": ("session", "env", False),
        "/etc/profile": ("login", "shell", False),
        "/etc/profile.d/aa.sh": ("login", "shell", False),
        "/etc/profile.d/zz.sh": ("login", "shell", True),
        "/etc/bash.bashrc": ("login", "shell", True),
        "/etc/nccl.conf": ("nccl", "nccl_conf", False),
    }


def test_homes_of_users_and_not_of_services(node):
    node("/etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/data/alice:/bin/sh\ndaemon:x:2:2::/srv/daemon:/bin/sh\nbroken\n")
    for home in ("/root", "/data/alice", "/srv/daemon", "/home/ldap"):
        root = node(home + "/.bashrc", "export NCCL_DEBUG=INFO")
    node("/home/ldap/.nccl.conf", "NCCL_DEBUG=INFO")
    assert [source.path for source in probe.users_files(root)] == [
        "/root/.bashrc",
        "/data/alice/.bashrc",
        "/home/ldap/.bashrc",
        "/home/ldap/.nccl.conf",
    ]


def test_units_their_drop_ins_and_environment_files(node):
    node("/etc/systemd/system/trainer.service", "[Service]\nEnvironmentFile=-/etc/a.env\nEnvironmentFile=/etc/none.env\n")
    node("/usr/lib/systemd/system/other.service", "[Service]\nExecStart=/bin/true\n")
    node("/etc/systemd/system/trainer.service.d/90-late.conf", "[Service]\nEnvironmentFile=/etc/b.env\n")
    node("/etc/systemd/system/trainer.service.d/10-early.conf", "[Service]\nEnvironment=NCCL_DEBUG=INFO\n")
    node("/etc/a.env", "NCCL_DEBUG=INFO")
    root = node("/etc/b.env", "NCCL_DEBUG=INFO")
    os.symlink("/dev/null", os.path.join(root, "etc/systemd/system/masked.service"))
    found = {source.path: (source.unit, source.later) for source in probe.unit_files(root)}
    assert found == {
        "/etc/systemd/system/trainer.service": ("trainer.service", False),
        "/etc/systemd/system/trainer.service.d/90-late.conf": ("trainer.service", True),
        "/etc/systemd/system/trainer.service.d/10-early.conf": ("trainer.service", False),
        "/etc/a.env": ("trainer.service", False),
        "/etc/b.env": ("trainer.service", True),
    }


def test_files_that_are_named_are_read_as_what_they_are(node):
    node("/srv/a.sbatch", "export NCCL_DEBUG=INFO")
    node("/srv/job", "#!/usr/bin/env bash\nexport NCCL_DEBUG=INFO")
    node("/srv/train.py", "os.environ['NCCL_DEBUG'] = 'INFO'")
    root = node("/srv/x.env", "NCCL_DEBUG=INFO")
    found, missing = probe.given_files(["/srv/*", "/srv/job", "/nowhere/*.sh"], root)
    assert {source.path: source.kind for source in found} == {
        "/srv/a.sbatch": "shell",
        "/srv/job": "shell",
        "/srv/train.py": "text",
        "/srv/x.env": "env",
    }
    assert missing == ["/nowhere/*.sh"]


def test_pipe_and_folder_in_place_of_a_file_are_passed_over(node, tmp_path):
    root = node("/etc/profile.d/a.sh", "export NCCL_DEBUG=INFO")
    os.mkfifo(tmp_path / "etc/profile.d/b.sh")
    (tmp_path / "etc/profile.d/c.sh").mkdir()
    (tmp_path / "etc/profile.d/d.sh").symlink_to("d.sh")
    assert [source.path for source in probe.files(root)] == ["/etc/profile.d/a.sh"]


def test_a_reader_that_hangs_is_ended():
    import time

    assert probe.read("the homes", lambda: time.sleep(60), 0.3)[0] is None
    assert "the homes" in probe.read("the homes", lambda: time.sleep(60), 0.3)[1]
    found, problem = probe.read("the homes", lambda: 1 / 0, 5)
    assert found is None
    assert "division by zero" in problem
    assert probe.read("x", lambda: [1], 5) == ([1], "")


def test_environment_of_this_very_process_is_not_looked_at(monkeypatch):
    import subprocess

    child = subprocess.Popen(["sleep", "30"], env={**os.environ, "NCCL_ASYNC_ERROR_HANDLING": "kentino-test"})
    try:
        found = [source for source in probe.processes() if "kentino-test" in source.text]
        assert [(source.path, source.processes, source.kind) for source in found] == [("sleep", 1, "environ")]
    finally:
        child.kill()
        child.wait()


def tool(folder, name, text):
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path, os.environ["PATH"]))
    return tmp_path


def test_login_shell_tells_what_it_has(tools):
    tool(tools, "su", 'echo "Welcome NCCL_X=9"; export NCCL_X=1; exec sh -c "$4"\n')
    answer = probe.login_shell("root", 5)
    assert (answer.problem, answer.variables["NCCL_X"]) == ("", "1")
    assert answer.memlock
    assert "KENTINO_MEMLOCK" not in answer.variables


def test_transient_unit_is_set_up_like_the_drop_in(tools):
    tool(tools, "systemd-run", 'echo "$*" > %s/argv; while [ "$1" != /bin/sh ]; do shift; done; exec "$@"\n' % tools)
    assert probe.transient_unit("/e.env", "4096", 5).problem == ""
    argv = (tools / "argv").read_text()
    assert "--property=EnvironmentFile=/e.env --property=LimitMEMLOCK=4096K" in argv
    probe.transient_unit("/e.env", "unlimited", 5)
    assert "--property=LimitMEMLOCK=infinity" in (tools / "argv").read_text()
    probe.transient_unit("/e.env", "", 5)
    assert "LimitMEMLOCK" not in (tools / "argv").read_text()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "status 1"),
        ("echo This account is not available >&2; exit 1", "not available"),
        ("sleep 60", "did not answer"),
        ("printf 'x\\0A=1'", "told nothing"),
    ],
)
def test_shell_that_does_not_answer(tools, script, words):
    tool(tools, "su", script)
    answer = probe.login_shell("root", 3 if words == "did not answer" else 60)
    assert words in answer.problem
    assert answer.variables == {}


def test_shell_that_is_missing_names_its_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "package util-linux" in probe.login_shell("root", 5).problem


def test_room_of_a_folder_that_is_not_there_yet_is_that_of_the_next_one_above(tmp_path):
    found = probe.folder(str(tmp_path / "a/b"))
    assert (found.exists, found.on, found.mode) == (False, str(tmp_path), None)
    assert found.free_bytes > 0


def test_dumps_of_earlier_runs_are_counted(tmp_path):
    for name in ("rank_0", "rank_11", "rank_x", "other"):
        (tmp_path / name).write_text("")
    tmp_path.chmod(0o1777)
    found = probe.folder(str(tmp_path))
    assert (found.exists, found.dumps, len(found.owners), found.mode) == (True, 2, 1, 0o1777)


def nccl(best, works=True, both=True):
    runs = [{"p2p": mode, "works": works or mode != best} for mode in (("off", "on") if both else (best,))]
    environment = {"NCCL_P2P_DISABLE": "1"} if best == "off" else {}
    return {"verdict": "warn", "facts": {"nccl": {"best_p2p": best, "best_environment": environment, "runs": runs}}}


def test_newest_measurement_of_peer_to_peer_is_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("KENTINO_GPU_ROOT", raising=False)
    assert probe.measured(str(tmp_path)) is None
    for number, (run_id, result) in enumerate({"r1": nccl("on"), "r2": nccl("off"), "r3": nccl("on", works=False), "r4": None}.items()):
        run = preflight_run.Run(str(tmp_path), run_id)
        run.record("nccl" if result else "burn", result or {"verdict": "pass"})
        os.utime(tmp_path / run_id, (number, number))
    found = probe.measured(str(tmp_path))
    assert (found.run_id, found.best, found.environment, found.compared) == ("r2", "off", {"NCCL_P2P_DISABLE": "1"}, True)


@pytest.mark.parametrize(
    "result", [None, {}, {"facts": None}, {"facts": {"nccl": {"best_p2p": None}}}, json.loads("[]"), {"facts": {"nccl": []}}]
)
def test_result_that_says_nothing_about_peer_to_peer(result):
    assert probe.from_result(result, "x") is None


def test_gpus_on_the_bus(tmp_path, monkeypatch):
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path))
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)
    assert probe.gpu_ids() == []
    assert probe.has_rdma() is False
    device = tmp_path / "sys/bus/pci/devices/0000:2a:00.0"
    device.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x2330")):
        (device / name).write_text(text + "\n")
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    assert probe.gpu_ids() == ["10de:2330"]
    assert probe.has_rdma() is True
