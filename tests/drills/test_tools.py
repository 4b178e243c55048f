# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Container engines and node tools: Debian's real ones, asked themselves. What was not proven is said."""

from __future__ import annotations

import json

import pytest

TOOLKIT, TOOLS = ["container_toolkit"], ["node_tools"]
# A container has no network of its own to give away, and the settings say so. procps has the kill with which docker is reloaded.
ENGINES = """set -e
export DEBIAN_FRONTEND=noninteractive
mkdir -p /etc/docker
echo '{"iptables": false, "ip6tables": false, "bridge": "none"}' >/etc/docker/daemon.json
chmod 0600 /etc/docker/daemon.json
apt-get install -qq -y --no-install-recommends docker.io containerd procps >/dev/null 2>&1
systemctl is-active docker containerd
"""
RUNTIMES = "docker info --format '{{.DefaultRuntime}} {{json .Runtimes}}'"
CDI = "nvidia-ctk cdi list 2>/dev/null"


@pytest.fixture(scope="module")
def bare(module_node):
    return module_node


@pytest.fixture(scope="module")
def driven(bare):
    """The drills of this file build upon each other."""
    bare.install_driver()
    bare.run(ENGINES)
    return bare


@pytest.fixture
def toolkit(driven, play):
    def run(check=False, **variables):
        return play(driven, TOOLKIT, check=check, container_toolkit_enabled=True, **variables)

    return run


def test_without_a_driver_no_toolkit_is_installed(bare, play):
    run = play(bare, TOOLKIT, container_toolkit_enabled=True)
    assert run.rc == 2
    assert "No NVIDIA driver runs on debian-12 (run the role kentino.gpu.nvidia_driver first)" in run.message
    assert "Nothing was changed" in run.message
    assert bare.run("dpkg-query -W 'nvidia-container*' || true") == ""


@pytest.mark.nightly
@pytest.mark.parametrize("settings", ['{"mtu": 1400,', '# mine\n{"mtu": 1400}', '["mtu"]'])
def test_settings_of_docker_that_cannot_be_read_are_not_overwritten(driven, toolkit, settings):
    driven.run("cp -p /etc/docker/daemon.json /tmp; echo '%s' >/etc/docker/daemon.json" % settings)
    run = toolkit()
    assert driven.run("cat /etc/docker/daemon.json") == settings + "\n"
    driven.run("cp -p /tmp/daemon.json /etc/docker")
    assert run.rc == 2
    assert "/etc/docker/daemon.json on debian-12 is no JSON object" in run.message
    assert "Nothing was changed" in run.message
    assert driven.run("dpkg-query -W 'nvidia-container*' || true") == ""


@pytest.mark.nightly
def test_engines_that_run_know_the_runtime(driven, toolkit):
    started = driven.run("systemctl show -P MainPID docker")
    run = toolkit(container_toolkit_default_runtime=True)
    assert run.rc == 0, run.output
    settings = json.loads(driven.run("cat /etc/docker/daemon.json"))
    assert settings["bridge"] == "none"
    assert driven.run("stat -c %a /etc/docker/daemon.json").strip() == "600"
    assert driven.run(RUNTIMES).startswith("nvidia ")
    # Its containers were not ended.
    assert driven.run("systemctl show -P MainPID docker") == started
    assert "nvidia.com/gpu=3" in driven.run(CDI)
    for check in (False, True):
        run = toolkit(check=check, container_toolkit_default_runtime=True)
        assert (run.rc, run.changed) == (0, []), run.output


@pytest.mark.nightly
def test_run_that_was_cut_off_before_the_engines_were_told_is_made_good(driven, toolkit):
    """Both files as the role leaves them, and daemons from before."""
    driven.run(
        'cp -r /etc/docker /etc/containerd /tmp; echo \'{"bridge": "none", "iptables": false}\' >/etc/docker/daemon.json;'
        "rm /etc/containerd/conf.d/99-nvidia.toml; systemctl restart containerd docker; sleep 1.1;"
        "cp /tmp/docker/daemon.json /etc/docker; cp /tmp/containerd/conf.d/99-nvidia.toml /etc/containerd/conf.d"
    )
    assert "nvidia" not in driven.run(RUNTIMES)
    assert "Restart containerd" in " ".join(toolkit(check=True).changed)
    run = toolkit()
    assert run.rc == 0, run.output
    assert '"nvidia"' in driven.run(RUNTIMES)
    assert [task.split(" : ")[-1] for task in run.changed] == [
        "Docker that runs knows what it was told", "Containerd that runs has read them", "Have docker read its settings",
        "Restart containerd",
    ]  # fmt: skip


@pytest.mark.nightly
def test_containerd_from_before_is_no_proof(driven, play):
    driven.run("sleep 1.1; touch /etc/containerd/conf.d/99-nvidia.toml")
    run = play(driven, TOOLKIT, container_toolkit_enabled=True, tags="container_toolkit_verify")
    assert run.rc == 2
    assert "containerd on debian-12 has run for longer than its settings" in run.message
    driven.run("systemctl restart containerd")
    assert play(driven, TOOLKIT, container_toolkit_enabled=True, tags="container_toolkit_verify").rc == 0


@pytest.mark.nightly
def test_engine_that_its_owner_stopped_is_not_started_and_not_called_proven(driven, toolkit):
    driven.run('systemctl stop docker; echo \'{"bridge": "none", "iptables": false}\' >/etc/docker/daemon.json')
    run = toolkit()
    assert run.rc == 0, run.output
    assert "docker does not run on debian-12, so that it was not asked" in run.output
    # Its socket would start it for whoever asks.
    assert driven.run("systemctl is-active docker.socket docker || true").split() == ["active", "inactive"]
    assert '"nvidia"' in driven.run("cat /etc/docker/daemon.json")


@pytest.mark.nightly
def test_docker_that_runs_and_does_not_answer_is_no_success(driven, toolkit):
    driven.run("systemctl start docker; mv /usr/bin/docker /usr/bin/docker.real; printf '#!/bin/sh\\nexit 1\\n' >/usr/bin/docker")
    driven.run("chmod +x /usr/bin/docker")
    run = toolkit()
    driven.run("mv /usr/bin/docker.real /usr/bin/docker")
    assert run.rc == 2
    assert "docker runs on debian-12 and does not answer" in run.message


@pytest.mark.nightly
def test_docker_that_failed_is_no_success(driven, toolkit):
    driven.run("systemctl stop docker.socket docker; mkdir -p /run/systemd/system/docker.service.d")
    driven.run("printf '[Service]\\nRestart=no\\nExecStart=\\nExecStart=/bin/false\\n' >/run/systemd/system/docker.service.d/no.conf")
    driven.run("systemctl daemon-reload; systemctl start docker || true")
    run = toolkit()
    driven.run("rm -r /run/systemd/system/docker.service.d; systemctl daemon-reload; systemctl reset-failed docker; systemctl start docker")
    assert run.rc == 2
    assert 'docker on debian-12 is "failed": whether containers get GPUs cannot be told' in run.message


@pytest.mark.nightly
def test_containerd_that_cannot_read_its_settings_is_named(driven, toolkit):
    driven.run("cp /etc/containerd/config.toml /tmp/config.toml; echo '[plugins' >>/etc/containerd/config.toml")
    run = toolkit()
    driven.run("cp /tmp/config.toml /etc/containerd/config.toml; systemctl restart containerd")
    assert run.rc == 2
    assert "containerd on debian-12 cannot read its own settings" in run.message


@pytest.mark.nightly
def test_specification_that_does_not_fit_the_node_is_written_anew(driven, toolkit):
    for spoil in ("/gpu=/d; /name: .3/d", 's/name: .3./name: "4"/'):
        driven.run("sed -i '%s' /var/run/cdi/nvidia.yaml" % spoil)
        assert "nvidia.com/gpu=3" not in driven.run(CDI).split()
        run = toolkit()
        assert run.rc == 0, run.output
        assert "nvidia.com/gpu=3" in driven.run(CDI).split()


@pytest.mark.nightly
def test_gpu_that_does_not_answer_is_missed_by_the_toolkit(driven, toolkit):
    driven.run("/opt/node/driver hardware l40sx4+gpu_lost")
    run = toolkit()
    driven.run("/opt/node/driver hardware l40sx4")
    assert run.rc == 2
    assert "kentino.gpu.health" in run.message


@pytest.mark.nightly
def test_tools_are_judged_by_what_they_answer(driven, play):
    """All exit with 0 here; the first time they tell nothing."""
    driven.run("touch /dev/sda /dev/sda1 /dev/sr0 /dev/nvme0 /dev/nvme0n1 /dev/ipmi0")
    answers = {
        "/usr/sbin/smartctl": ('{"json_format_version": 1}', '{"json_format_version": 1, "name": "/dev/sda"}', "/dev/sda"),
        "/usr/sbin/nvme": ('{"Devices": []}', '{"NameSpace":"nvme0n1"}', "nvme0n1"),
        "/usr/bin/ipmitool": ("", "Device ID                 : 32", "Device ID"),
    }
    assert play(driven, TOOLS).rc == 2
    for path, (empty, _full, _words) in answers.items():
        script = "printf '#!/bin/sh\\ncat /run/%%s\\n' $(basename %s) >%s; echo '%s' >/run/$(basename %s)"
        driven.run("cp -p %s /tmp; %s" % (path, script % (path, path, empty, path)))
    for path, (_empty, full, words) in answers.items():
        run = play(driven, TOOLS)
        driven.run("echo '%s' >/run/$(basename %s)" % (full, path))
        assert run.rc == 2
        assert "does not tell %s" % words in " ".join(str(one["message"]) for one in run.results)
    run = play(driven, TOOLS, tags="node_tools_verify")
    driven.run("cd /tmp && cp -p smartctl nvme /usr/sbin && cp -p ipmitool /usr/bin; rm /dev/sd* /dev/sr0 /dev/nvme* /dev/ipmi0")
    assert run.rc == 0, run.output


@pytest.mark.nightly
def test_bmc_that_does_not_answer_is_named(driven, play):
    driven.run("touch /dev/ipmi0")
    run = play(driven, TOOLS)
    driven.run("rm /dev/ipmi0")
    assert run.rc == 2
    assert '"ipmitool mc info" on debian-12 failed' in " ".join(run.output.split())
    assert "ipmi_devintf may not be loaded" in " ".join(run.output.split())
    assert driven.run("systemctl is-enabled ipmievd || true").strip() in ("disabled", "masked", "not-found")


@pytest.mark.nightly
def test_bindings_that_read_nothing_are_no_success(driven, play):
    """The modules would take nvidia-smi instead, and be content."""
    path = "/usr/lib/python3/dist-packages/pynvml.py"
    driven.run("mv %s /tmp; echo >%s" % (path, path))
    run = play(driven, TOOLS)
    driven.run("mv /tmp/pynvml.py " + path)
    assert run.rc == 2
    assert "NVIDIA's Python bindings on debian-12 read 0 GPUs of driver none; the node has 4" in run.message


@pytest.mark.nightly
def test_folder_that_node_exporter_does_not_read_is_named(driven, play):
    driven.run("DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends prometheus-node-exporter >/dev/null 2>&1")
    assert play(driven, TOOLS).rc == 0
    driven.run("echo 'ARGS=--collector.textfile.directory=/srv/metrics/' >/etc/default/prometheus-node-exporter")
    driven.run("systemctl restart prometheus-node-exporter")
    run = play(driven, TOOLS)
    assert run.rc == 2
    assert "reads the metrics in /srv/metrics/, and node_tools_textfile_directory is /var/lib/prometheus/node-exporter" in " ".join(
        run.output.split()
    )
    assert play(driven, TOOLS, gpu_textfile_directory="/srv/metrics").rc == 0
