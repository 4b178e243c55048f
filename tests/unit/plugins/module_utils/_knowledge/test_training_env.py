# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import thresholds, training_env, training_env_names
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge.torch_environment import allocator_variable, hang_variables

HANG = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1", "TORCH_NCCL_ENABLE_MONITORING": "1"}
OLD_NAMES = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "20000", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/d/rank_"}


@pytest.mark.parametrize(
    ("version", "own"),
    [
        ("2.1.2", {"NCCL_ASYNC_ERROR_HANDLING": "1", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
        # PyTorch 2.0 stops at a setting of the allocator that it does not know.
        ("2.0.1", {"NCCL_ASYNC_ERROR_HANDLING": "1"}),
        ("2.2.0", {**HANG, **OLD_NAMES, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
        (
            "2.8.0",
            {
                **HANG,
                "TORCH_FR_BUFFER_SIZE": "20000",
                "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/d/rank_",
                "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
            },
        ),
        (
            "2.13.0+cpu",
            {
                **HANG,
                "TORCH_FR_BUFFER_SIZE": "20000",
                "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/d/rank_",
                "TORCH_FR_DUMP_TEMP_FILE": "/d/rank_",
                "PYTORCH_ALLOC_CONF": "expandable_segments:True",
            },
        ),
        (
            None,
            {
                **HANG,
                **OLD_NAMES,
                "TORCH_FR_BUFFER_SIZE": "20000",
                "TORCH_FR_DUMP_TEMP_FILE": "/d/rank_",
                "PYTORCH_ALLOC_CONF": "expandable_segments:True",
                "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
            },
        ),
    ],
)
def test_profile_has_the_names_of_the_version(version, own):
    assert training_env.profile(version, "/d/") == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **own}


@pytest.mark.parametrize("version", ["2.2.0", "2.5.1", "2.7.1", "2.8.0", "2.9.0", "2.9.1", "2.14.1"])
def test_unknown_version_has_every_name_that_a_release_reads(version):
    names = {*hang_variables(version, "/d/rank_"), allocator_variable(version)}
    assert names <= set(training_env.profile(None, "/d"))


def test_extra_wins_and_null_leaves_out():
    variables = training_env.profile(
        "2.9.1",
        "/d",
        more={"NCCL_P2P_DISABLE": "1", "NCCL_IB_HCA": "mlx5"},
        extra={"NCCL_P2P_DISABLE": "0", "CUDA_DEVICE_ORDER": None, "NCCL_DEBUG": "WARN", "NCCL_IB_TC": None},
    )
    assert (variables["NCCL_P2P_DISABLE"], variables["NCCL_IB_HCA"], variables["NCCL_DEBUG"]) == ("0", "mlx5", "WARN")
    assert not {"CUDA_DEVICE_ORDER", "NCCL_IB_TC"} & set(variables)


def test_without_a_folder_the_place_of_dumps_is_left_to_pytorch():
    assert not [name for name in training_env.profile(None, None) if "FILE" in name]
    assert "TORCH_FR_BUFFER_SIZE" in training_env.profile(None, None)


@pytest.mark.parametrize("value", ["a'b", 'a"b', "a\\b", "$HOME", "`id`", "a\nb", " a", "a ", "a#b", "a;b", "a\0b", "ü"])
def test_value_that_shells_and_systemd_read_differently_is_refused(value):
    with pytest.raises(ValueError, match="NCCL_X"):
        training_env.profile("2.9.1", extra={"NCCL_X": value})


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B"])
def test_name_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match="no name of a variable"):
        training_env.profile("2.9.1", extra={name: "1"})


def test_unknown_version_is_said_so():
    assert "not known" in training_env.notes("nonsense")[0]
    assert training_env.notes("2.9.1") == []
    assert "no flight recorder" in training_env.notes("2.1.0")[0]


def test_figures_have_their_source():
    for figure in (training_env.DUMP_ENTRY_BYTES, training_env.DUMPS_KEPT):
        assert figure.trust in thresholds.TRUST
        assert figure.source
        assert figure.conditions
    assert training_env.dump_bytes(20000, 8) == 20000 * 1024 * 8


def test_no_name_of_the_profile_is_old_for_its_version():
    for version in ("2.1.0", "2.2.0", "2.7.1", "2.8.0", "2.9.1", "2.14.1"):
        for name, value in training_env.profile(version).items():
            old = training_env_names.deprecated(name)
            assert old is None or not old.applies(version, value), (version, name)
            assert name in training_env_names.KNOWN or old
            assert training_env_names.meant(name) is None
            assert not [left for left in training_env_names.leftovers(name) if value in left.values]
