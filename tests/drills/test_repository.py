# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong between a node and the place its packages come from."""

from __future__ import annotations

import re

import pytest

ROLES = ["nvidia_repository"]
KEYRING = "ls /etc/apt/keyrings /etc/apt/sources.list.d"
MIRROR = "http://127.0.0.1:8099"
CUDA = "/srv/repository/compute/cuda/repos"


@pytest.fixture
def fresh(module_node):
    """The node as it was: only what this role makes is taken away, and what a test spoilt is put back."""
    module_node.run(
        "rm -f /etc/apt/keyrings/nvidia-* /etc/apt/sources.list.d/nvidia-*"
        " && rm -rf /srv/repository && cp -r /opt/repository /srv/repository"
        " && systemctl restart test-repository && sleep 0.5"
    )
    return module_node


def test_repository_is_set_up_once(fresh, play):
    first = play(fresh, ROLES)
    assert first.rc == 0, first.output
    assert "nvidia-cuda.sources" in fresh.run(KEYRING)
    second = play(fresh, ROLES)
    assert (second.rc, second.changed) == (0, []), second.output
    check = play(fresh, ROLES, check=True)
    assert (check.rc, check.changed) == (0, []), check.output


@pytest.mark.nightly
@pytest.mark.parametrize("node", ["debian-13"], indirect=True)
def test_check_mode_on_a_bare_node_changes_nothing(node, play):
    before = node.run("find /etc /var/lib/dpkg -newer /run/boot-id -type f | sort")
    assert play(node, ROLES, check=True).rc == 0
    assert node.run("find /etc /var/lib/dpkg -newer /run/boot-id -type f | sort") == before
    assert play(node, ROLES).rc == 0


def test_key_of_somebody_else_is_refused_and_removed(fresh, play):
    run = play(fresh, ROLES, nvidia_repository_key_fingerprint="EB693B3035CD5710E231E123A4B469963BF863CC")
    assert run.rc == 2
    assert "EB693B3035CD5710E231E123A4B469963BF863CC is expected" in run.message
    assert "gpu_repository_key_fingerprint" in run.message
    assert "nvidia-cuda" not in fresh.run(KEYRING)


@pytest.mark.nightly
def test_page_of_a_proxy_in_place_of_the_key_is_no_key(fresh, play):
    fresh.run("echo '<html>Please log in</html>' > %s/debian12/x86_64/3bf863cc.pub" % CUDA)
    run = play(fresh, ROLES)
    assert run.rc == 2
    assert "that is no key" in run.message
    assert "nvidia-cuda" not in fresh.run(KEYRING)


@pytest.mark.nightly
def test_key_that_apt_could_not_read_is_refused(fresh, play):
    """gpg takes a binary key; apt takes it for none in a file that ends in .asc."""
    fresh.run("cd %s/debian12/x86_64 && gpg --batch --dearmor --output binary 3bf863cc.pub && mv binary 3bf863cc.pub" % CUDA)
    run = play(fresh, ROLES)
    assert run.rc == 2
    assert "is binary" in run.message
    assert "gpg --armor --export" in run.message
    assert "nvidia-cuda" not in fresh.run(KEYRING)


@pytest.mark.nightly
@pytest.mark.parametrize("mirror", ["file:///srv/repository", "http://user:hush@127.0.0.1:8099"])
def test_mirror_whose_address_apt_writes_otherwise_is_taken(fresh, play, mirror):
    first = play(fresh, ROLES, gpu_repository_mirror=mirror)
    assert first.rc == 0, first.output
    second = play(fresh, ROLES, gpu_repository_mirror=mirror)
    assert (second.rc, second.changed) == (0, []), second.output
    assert "hush" not in first.output + second.output


@pytest.mark.nightly
@pytest.mark.parametrize(("spoil", "named"), [("3bf863cc.pub", "could not be fetched"), ("*Release", "could not be read")])
def test_password_of_the_mirror_is_in_no_message(fresh, play, spoil, named):
    fresh.run("rm %s/debian12/x86_64/%s" % (CUDA, spoil))
    run = play(fresh, ROLES, gpu_repository_mirror="http://user:hush@127.0.0.1:8099")
    assert run.rc == 2
    assert named in run.message
    assert "http://127.0.0.1:8099/compute/cuda" in run.message
    assert "hush" not in run.output


def test_repository_that_is_down_is_named(fresh, play):
    fresh.run("systemctl stop test-repository")
    run = play(fresh, ROLES)
    assert run.rc == 2
    assert "http://127.0.0.1:8099/compute/cuda/repos/debian12/x86_64" in run.message
    assert "gpu_repository_mirror" in run.message


@pytest.mark.nightly
def test_repository_that_went_down_later_is_named(fresh, play):
    assert play(fresh, ROLES).rc == 0
    fresh.run("systemctl stop test-repository")
    run = play(fresh, ROLES, nvidia_repository_cache_seconds=0)
    assert run.rc == 2
    assert "http://127.0.0.1:8099" in run.message


def test_lists_that_somebody_changed_are_refused(fresh, play):
    fresh.run("sed -i 's/^Date:.*/Date: Thu, 01 Jan 2026 00:00:00 UTC/' %s/debian12/x86_64/InRelease" % CUDA)
    run = play(fresh, ROLES)
    assert run.rc == 2
    assert "could not be read" in run.message
    assert "http://127.0.0.1:8099/compute/cuda" in run.message
    assert "nvidia-cuda.sources" in run.message
    assert "nvidia-cuda" not in fresh.run(KEYRING)
    fresh.run("apt-get update")


def test_lists_that_are_old_or_gone_are_fetched_again(fresh, play):
    assert play(fresh, ROLES).rc == 0
    fresh.run("rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin; touch /var/lib/apt/periodic/update-success-stamp 2>/dev/null; true")
    assert play(fresh, ROLES).rc == 0
    assert "Candidate: 1.1-1" in fresh.run("apt-cache policy cuda-keyring")
    fresh.run("touch -d '1 hour ago' /var/lib/apt/lists; rm -f /var/lib/apt/periodic/update-success-stamp")
    asked = "journalctl --unit test-repository --output cat | grep --count debian12/x86_64/InRelease"
    before = int(fresh.run(asked))
    assert play(fresh, ROLES).rc == 0
    assert int(fresh.run(asked)) > before


@pytest.mark.nightly
def test_fingerprint_that_is_none_is_refused_before_anything_is_done(fresh, play):
    run = play(fresh, ROLES, nvidia_repository_key_fingerprint="3bf863cc")
    assert run.rc == 2
    assert '"3BF863CC" and not 40 hexadecimal digits' in run.message


@pytest.mark.nightly
def test_each_repository_can_have_a_key_of_its_own(fresh, play):
    known = fresh.run("cat /opt/repository/fingerprint").strip().lower()
    toolkits = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
    run = play(
        fresh,
        ROLES,
        nvidia_repository_repositories=["cuda", "container_toolkit"],
        # As gpg prints it for people.
        nvidia_repository_key_fingerprint=" ".join(known[place : place + 4] for place in range(0, 40, 4)),
        nvidia_repository_container_toolkit_key_fingerprint=toolkits,
    )
    assert run.rc == 2
    assert "%s is expected" % toolkits in run.words
    assert "set nvidia_repository_container_toolkit_key_fingerprint" in run.words
    assert "nvidia-cuda.sources" in fresh.run(KEYRING)


def test_repository_that_somebody_else_set_up_is_refused_and_apt_goes_on_working(fresh, play):
    """As the package cuda-keyring does it. apt takes no repository with two keys, and would not work at all any more."""
    theirs = "/etc/apt/sources.list.d/cuda-debian12-x86_64.list"
    fresh.run("cp /etc/apt/keyrings/test-distribution.asc /usr/share/keyrings/cuda-archive-keyring.asc")
    fresh.run(
        "echo '# deb %s/compute/cuda/repos/debian12/x86_64/ /' >/etc/apt/sources.list.d/comment.list;"
        "echo 'deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.asc] %s/compute/cuda/repos/debian12/x86_64/ /' >%s"
        % (MIRROR, MIRROR, theirs)
    )
    run = play(fresh, ROLES)
    fresh.run("apt-get update && rm %s" % theirs)
    assert run.rc == 2
    assert theirs in run.message
    assert "comment.list" not in run.message
    assert "cuda-keyring" in run.message
    after = play(fresh, ROLES)
    fresh.run("rm /etc/apt/sources.list.d/comment.list")
    assert after.rc == 0, after.output


@pytest.mark.nightly
@pytest.mark.parametrize("check", [False, True])
def test_repository_with_a_variable_in_its_address_is_refused_too(fresh, play, check):
    """As NVIDIA's guide for the container toolkit writes it."""
    theirs = "/etc/apt/sources.list.d/container-toolkit.list"
    entry = "deb [signed-by=/etc/apt/keyrings/test-distribution.asc] %s/libnvidia-container/stable/deb/$(ARCH) /" % MIRROR
    fresh.run("echo '%s' >%s" % (entry, theirs))
    run = play(fresh, ROLES, check=check, nvidia_repository_repositories=["container_toolkit"])
    fresh.run("apt-get update && rm %s" % theirs)
    assert run.rc == 2
    assert theirs in run.message
    assert "nvidia-container-toolkit" not in fresh.run(KEYRING)


@pytest.mark.nightly
def test_repository_that_was_set_up_twice_already_is_explained(fresh, play):
    """The package cuda-keyring came after this role."""
    assert play(fresh, ROLES).rc == 0
    theirs = "/etc/apt/sources.list.d/cuda-debian12-x86_64.list"
    entry = "deb [signed-by=/etc/apt/keyrings/test-distribution.asc] %s/compute/cuda/repos/debian12/x86_64/ /" % MIRROR
    fresh.run("echo '%s' >%s" % (entry, theirs))
    run = play(fresh, ROLES, nvidia_repository_cache_seconds=0)
    fresh.run("rm %s" % theirs)
    assert run.rc == 2
    assert "name one repository with two keys" in run.message


@pytest.mark.nightly
def test_driver_package_that_is_half_installed_is_named(node, play):
    """dpkg --configure -a and apt-get check both end well over it."""
    assert play(node, ["nvidia_driver"]).rc == 0
    node.run("sed -i '/^Package: libcuda1$/,/^$/s/^Status: .*/Status: hold reinstreq half-installed/' /var/lib/dpkg/status")
    assert node.run("dpkg --configure -a && apt-get check && dpkg-query --show --showformat '${db:Status-Eflag}' libcuda1") != ""
    run = play(node, ["nvidia_driver"])
    assert run.rc == 2
    assert "libcuda1" in run.message
    cure = re.search(r"apt-get install --reinstall [^)]*", run.message)
    assert cure, run.message
    node.run("DEBIAN_FRONTEND=noninteractive %s --yes" % cure.group())
    assert play(node, ["nvidia_driver"]).rc == 0
