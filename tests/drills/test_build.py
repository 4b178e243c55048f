# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is built on the node: nothing unchecked, nothing unproven in its place, and what worked stays until something better is proven."""

from __future__ import annotations

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NCCL = "nccl-tests-2.17.6.tar.gz"
BURN = "gpu-burn-3ead140434da9473582b68452f7115967a7a0581.tar.gz"
STORE = "/opt/kentino-gpu/builds"


@pytest.fixture(scope="module")
def driven(module_node):
    """The drills of this file build upon each other: first without a build, then with one that must stay."""
    return module_node


@pytest.fixture
def build(driven, play):
    """The role on the node, with the checksum of the archive that the tests made."""

    def run(role="nccl_tests", check=False, **variables):
        sums = {}
        for name, archive in (("nccl_tests", NCCL), ("gpu_burn", BURN)):
            sums[name + "_checksum"] = "sha256:" + driven.run("sha256sum /srv/repository/sources/" + archive).split()[0]
        # Ten minutes of the tool pass in a second of the machine's, and the GPUs must be seen under load.
        return play(driven, [role], check=check, **{"gpu_burn_self_test_seconds": 600, **sums, **variables})

    return run


def link(node, path="/opt/nccl-tests"):
    return node.run("readlink %s || true" % path).strip()


def stored(node):
    return node.run("ls -A %s 2>/dev/null || true" % STORE).split()


@pytest.mark.nightly
def test_without_a_driver_nothing_is_built(driven, build):
    run = build()
    assert run.rc == 2
    assert "debian-12 has no NVIDIA driver" in run.message
    assert "kentino.gpu.nvidia_driver first" in run.message
    assert "gpu_cuda_version" in run.message


@pytest.mark.nightly
def test_check_mode_on_a_bare_node_changes_nothing(driven, build):
    for role in ("nccl_tests", "gpu_burn"):
        run = build(role, check=True)
        assert run.rc == 0, run.output
    assert driven.run("ls -A /opt").split() == ["node", "repository", "simulated-node"]
    driven.install_driver()


@pytest.mark.nightly
def test_verification_alone_needs_something_to_verify(driven, play):
    for role, program in (("nccl_tests", "/opt/nccl-tests/build/all_reduce_perf"), ("gpu_burn", "/opt/gpu-burn/gpu_burn")):
        run = play(driven, [role], tags=role + "_verify")
        assert run.rc == 2
        assert "%s is not there on debian-12" % program in run.message


@pytest.mark.nightly
def test_archive_that_cannot_be_checked_is_not_built(driven, build):
    run = build(nccl_tests_checksum="")
    assert run.rc == 2
    assert 'nccl_tests_checksum is "" and not "sha256:"' in run.message
    assert "sha256sum prints it" in run.message


@pytest.mark.nightly
def test_archive_with_another_checksum_is_not_built(driven, build):
    run = build(nccl_tests_checksum="sha256:" + "0" * 64)
    assert run.rc == 2
    assert "nccl-tests-2.17.6.tar.gz is not the one that was pinned" in run.message
    assert "nccl_tests_checksum belongs to another version" in run.message
    assert stored(driven) == []


@pytest.mark.nightly
def test_host_that_does_not_answer_is_named_with_the_ways_around_it(driven, build):
    run = build(gpu_source_mirror="http://127.0.0.1:9/sources/")
    assert run.rc == 2
    assert "could not be had from http://127.0.0.1:9/sources/nccl-tests-2.17.6.tar.gz" in run.message
    assert "gpu_source_mirror" in run.message
    assert "put the archive on the controller and its path into nccl_tests_source" in run.message
    assert (stored(driven), link(driven)) == ([], "")


@pytest.mark.nightly
def test_folder_that_somebody_else_put_there_is_not_touched(driven, build):
    driven.run("mkdir /opt/gpu-burn && touch /opt/gpu-burn/theirs")
    run = build("gpu_burn")
    assert run.rc == 2
    assert "/opt/gpu-burn on debian-12 is not a link of this role" in run.message
    assert driven.run("ls /opt/gpu-burn").split() == ["theirs"]
    driven.run("rm -r /opt/gpu-burn")


@pytest.mark.nightly
def test_archive_on_the_controller_is_built_proven_and_put_in_its_place(driven, build):
    archive = str(ROOT / "build/repository/sources" / NCCL)
    driven.run("systemctl stop test-repository && sleep 1; systemctl start test-repository")
    # A root whose umask lets nobody else in.
    driven.run("printf '#!/bin/sh\\numask 077\\nexec /usr/bin/python3 \"$@\"\\n' >/usr/local/bin/strict; chmod +x /usr/local/bin/strict")
    run = build(nccl_tests_source=archive, ansible_python_interpreter="/usr/local/bin/strict")
    assert run.rc == 0, run.output
    driven.run("su -s /bin/sh nobody -c 'test -x /opt/nccl-tests/build/all_reduce_perf'")
    stamp = json.loads(driven.run("cat /opt/nccl-tests/.built.json"))
    assert (stamp["driver_branch"], stamp["cuda"], stamp["capabilities"]) == ("580", "13.0", ["8.9"])
    assert stamp["inputs"] == {"nccl": "2.28.9-1+cuda13.0"}
    assert "sm_89" in driven.run("head -2 /opt/nccl-tests/build/all_reduce_perf")
    assert json.loads(driven.run("cat /opt/nccl-tests/.self-test.json"))[0]["verdict"] in ("pass", "warn")
    assert driven.run("dpkg-query -W -f '${db:Status-Want}' libnccl2") == "hold"


@pytest.mark.nightly
def test_second_run_and_check_mode_find_nothing_to_do(driven, build):
    for role in ("nccl_tests", "gpu_burn"):
        assert build(role).rc == 0
        for check in (False, True):
            run = build(role, check=check)
            assert (run.rc, run.changed) == (0, []), run.output
    assert driven.run("cd /opt/gpu-burn && ./gpu_burn -l 2>/dev/null | wc -l").strip() == "4"


@pytest.mark.nightly
def test_removed_hold_is_named_by_check_mode(driven, build):
    driven.run("apt-mark unhold libnccl2")
    run = build(check=True)
    assert [one.split(" : ")[-1] for one in run.changed] == ["Hold what the build is proven with"]
    assert build().rc == 0


@pytest.mark.nightly
def test_build_that_was_cut_off_is_begun_anew(driven, build):
    before = link(driven)
    driven.run("rm %s/.built.json %s/.self-test.json %s/build/all_reduce_perf" % (before, before, before))
    run = build()
    assert run.rc == 0, run.output
    assert link(driven) == before
    assert driven.run("ls -A " + STORE).split() == sorted([pathlib.Path(before).name, pathlib.Path(link(driven, "/opt/gpu-burn")).name])


@pytest.mark.nightly
def test_compiler_that_the_repository_lacks_is_named(driven, build):
    before = link(driven, "/opt/gpu-burn")
    run = build("gpu_burn", gpu_cuda_version="12.1")
    assert run.rc == 2
    assert "cuda-nvcc-12-1" in run.message
    assert "CUDA 12.1 is what gpu_cuda_version says" in run.message
    assert link(driven, "/opt/gpu-burn") == before


@pytest.mark.nightly
def test_build_that_fails_leaves_the_one_of_before(driven, build):
    before = link(driven)
    driven.run("mv /usr/include/nccl.h /usr/include/nccl.away")
    run = build(cuda_build_capabilities=["8.9", "9.0"])
    driven.run("mv /usr/include/nccl.away /usr/include/nccl.h")
    assert run.rc == 2
    assert "nccl-tests could not be built on debian-12" in run.message
    assert "nccl.h: No such file or directory" in run.message
    assert "The build of before stays in use" in run.message
    assert link(driven) == before
    assert len(stored(driven)) == 2
    assert "USAGE" in driven.run("/opt/nccl-tests/build/all_reduce_perf --help")


@pytest.mark.nightly
def test_build_for_other_cards_computes_wrong_values_and_is_not_put_in_its_place(driven, build):
    before = link(driven)
    run = build(cuda_build_capabilities=["9.0"])
    assert run.rc == 2
    assert "did not pass its self-test" in run.message
    assert "wrong" in run.message
    assert "cuda_build_capabilities" in run.message
    assert link(driven) == before


@pytest.mark.nightly
def test_gpu_burn_for_other_cards_calls_itself_ok_and_is_not_put_in_its_place(driven, build):
    before = link(driven, "/opt/gpu-burn")
    run = build("gpu_burn", cuda_build_capabilities=["9.0"])
    assert run.rc == 2
    assert "did not pass its self-test" in run.message
    assert "no kernel image" in run.message
    assert link(driven, "/opt/gpu-burn") == before


@pytest.mark.nightly
def test_gpus_in_use_are_left_alone_and_the_new_build_waits(driven, build):
    before = link(driven)
    driven.run(
        "KENTINO_SIM_SPEED=0.01 setsid /opt/nccl-tests/build/all_reduce_perf -g 4 -e 4G >/dev/null 2>&1 & echo $! >/tmp/job; sleep 2"
    )
    run = build(cuda_build_capabilities=["8.9", "9.0"])
    assert run.rc == 0, run.output
    assert "are in use, so that the new build of nccl-tests was not tested" in " ".join(run.output.split())
    assert link(driven) == before
    driven.run("kill $(cat /tmp/job); sleep 1")
    run = build(cuda_build_capabilities=["8.9", "9.0"])
    assert run.rc == 0, run.output
    assert link(driven) != before
    assert "Run make" not in " ".join(run.changed)
    # The build of before, and those that failed, are gone.
    assert [name for name in stored(driven) if name.startswith("nccl")] == [pathlib.Path(link(driven)).name]


@pytest.mark.nightly
def test_build_with_mpi_is_another_one_against_the_distributions_own(driven, build):
    run = build(nccl_tests_mpi=True)
    assert run.rc == 0, run.output
    made = json.loads(driven.run("cat /opt/nccl-tests/.built.json"))["make"]
    assert made["MPI"] == 1
    driven.run("test -f {0}/include/mpi.h && test -e {0}/lib/libmpi.so".format(made["MPI_HOME"]))
    assert build(nccl_tests_mpi=True).changed == []


@pytest.mark.nightly
def test_new_branch_of_the_driver_brings_a_new_build(driven, play, build):
    before = link(driven)
    run = play(driven, playbook="driver_upgrade.yml", nvidia_driver_branch="590", nvidia_driver_version="590.44.01")
    assert run.rc == 0, run.output
    run = build()
    assert run.rc == 0, run.output
    stamp = json.loads(driven.run("cat /opt/nccl-tests/.built.json"))
    assert (stamp["driver_branch"], stamp["cuda"], stamp["inputs"]) == ("590", "13.1", {"nccl": "2.29.3-1+cuda13.1"})
    assert link(driven) != before
    assert build().changed == []
