# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.training_env import KINDS, parse
from ansible_collections.kentino.gpu.plugins.module_utils._parse.training_env_words import words
from hypothesis import given
from hypothesis import strategies as st


def found(text, kind="shell"):
    return [(item.line, item.name, item.value, item.how) for item in parse(text, kind).assignments]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("export A=1", [(1, "A", "1", "set")]),
        ("A=1", [(1, "A", "1", "set")]),
        ("# export A=1\nexport B=2 # A=3\n", [(2, "B", "2", "set")]),
        ("export A=a#b", [(1, "A", "a#b", "set")]),
        ("export A='b c' B=\"d e\"", [(1, "A", "b c", "set"), (1, "B", "d e", "set")]),
        ("export A=$X", [(1, "A", None, "set")]),
        ('export A="$(id -u)" B=${C:-D} E=`id`', [(1, "A", None, "set"), (1, "B", None, "set"), (1, "E", None, "set")]),
        ("export A+=x", [(1, "A", None, "set")]),
        ('if [ "$X" = 1 ]; then export A=1; else B=2; fi', [(1, "A", "1", "set"), (1, "B", "2", "set")]),
        ("f() { export A=1; }", [(1, "A", "1", "set")]),
        ("true && A=1 || B=2", [(1, "A", "1", "set"), (1, "B", "2", "set")]),
        ("export \\\n  A=1 \\\n  B=2\nC=3", [(2, "A", "1", "set"), (3, "B", "2", "set"), (4, "C", "3", "set")]),
        ("declare -x A=1\nenv B=2 python x C=3", [(1, "A", "1", "set"), (2, "B", "2", "set")]),
        ("export A\nexport B C=1", [(2, "C", "1", "set")]),
        ("unset A B", [(1, "A", None, "unset"), (1, "B", None, "unset")]),
        ("setenv A 1\nsetenv B", [(1, "A", "1", "set")]),
        (': ${A:=1}\n: "${B=$C}"', [(1, "A", "1", "default"), (2, "B", None, "default")]),
        ("echo A=1\necho 'export B=1' > C=2\necho \"export D=1\"", []),
        ("cat <<EOF >x\nexport A=1\nEOF\nB=2", [(4, "B", "2", "set")]),
        ("cat <<-'EOF'\n\texport A=1\n\tEOF\nB=2", [(4, "B", "2", "set")]),
        ("cat <<< A=1\nB=2", [(2, "B", "2", "set")]),
        ("export A='1\n2' B=3\nC=4", [(1, "A", "1\n2", "set"), (2, "B", "3", "set"), (3, "C", "4", "set")]),
        ("export A='open\n", [(1, "A", "open\n", "set")]),
        ("export A=1\r\nexport B=2\r\n", [(1, "A", "1", "set"), (2, "B", "2", "set")]),
        ("", []),
    ],
)
def test_shell(text, expected):
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "expected", "unrecognised"),
    [
        ("A=1\n# B=2\n; C=3\n\nD = 4\n", [(1, "A", "1", "set")], [(5, "D = 4")]),
        ("A=\"1 2\"\nB='3'\nexport C=4", [(1, "A", "1 2", "set"), (2, "B", "3", "set"), (3, "C", "4", "set")], []),
        ("A=1\\\n2\nB=3", [(1, "A", "1 2", "set"), (3, "B", "3", "set")], []),
        ("A=\nB", [(1, "A", "", "set")], [(2, "B")]),
    ],
)
def test_environment_file(text, expected, unrecognised):
    assert found(text, "env") == expected
    assert list(parse(text, "env").unrecognised) == unrecognised


def test_unit():
    text = """[Unit]
Description=x
[Service]
Environment=A=1 "B=2 3" C=%n
Environment=
#Environment=D=1
EnvironmentFile=-/etc/x.env
UnsetEnvironment=E F=1
PassEnvironment=G
Environment=H=1 \\
  I=2
junk
"""
    assert found(text, "unit") == [
        (4, "A", "1", "set"),
        (4, "B", "2 3", "set"),
        (4, "C", None, "set"),
        (7, "", "-/etc/x.env", "file"),
        (8, "E", None, "unset"),
        (8, "F", None, "unset"),
        (10, "H", "1", "set"),
        (10, "I", "2", "set"),
    ]
    assert parse(text, "unit").unrecognised == ((12, "junk"),)


def test_nccl_conf_takes_everything_behind_the_equals_sign():
    assert found("#A=1\nNCCL_SOCKET_IFNAME==ens1f0 \nB\n", "nccl_conf") == [(2, "NCCL_SOCKET_IFNAME", "=ens1f0 ", "set")]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ('os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"', "NCCL_ASYNC_ERROR_HANDLING", "1"),
        ('env.setdefault("NCCL_DEBUG", "INFO")', "NCCL_DEBUG", "INFO"),
        ("ENV NCCL_DEBUG TRACE", "NCCL_DEBUG", "TRACE"),
        ("      NCCL_IB_HCA: mlx5_0", "NCCL_IB_HCA", "mlx5_0"),
        ("docker run -e TORCH_NCCL_BLOCKING_WAIT=1 image", "TORCH_NCCL_BLOCKING_WAIT", "1"),
        ("#SBATCH x\n--export=ALL,CUDA_LAUNCH_BLOCKING=1", "CUDA_LAUNCH_BLOCKING", "1"),
        ("- name: ENABLE_NCCL_HEALTH_CHECK", "ENABLE_NCCL_HEALTH_CHECK", None),
        ("unset PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", None),
    ],
)
def test_other_text_that_names_a_variable(text, name, value):
    assert [(item.name, item.value) for item in parse(text, "text").assignments] == [(name, value)]


def test_comments_of_other_text_are_no_settings():
    assert found("# NCCL_DEBUG=INFO\n  // NCCL_DEBUG=INFO\nMY_NCCL_DEBUG_X=1\n", "text") == []


def test_environment_of_a_process():
    assert found("A=1\0B=2\n3\0junk\0=x\0", "environ") == [(0, "A", "1", "set"), (0, "B", "2\n3", "set")]


@given(text=st.text(alphabet="ANCL_=1 \t\n\\'\"$(){}<>|&;#`-:+\0é", max_size=120), kind=st.sampled_from(KINDS))
def test_no_text_raises(text, kind):
    for item in parse(text, kind).assignments:
        assert item.line <= text.count("\n") + 1


@given(
    st.lists(
        st.tuples(st.from_regex(r"[A-Z]{1,6}", fullmatch=True), st.from_regex(r"[A-Za-z0-9_./:,=^+@%-]{0,9}", fullmatch=True)), max_size=6
    )
)
def test_no_setting_of_a_profile_is_lost(pairs):
    text = "".join("echo x; export %s='%s'\n" % pair for pair in pairs)
    assert [(name, value) for _line, name, value, _how in found(text)] == pairs


def test_words_count_lines():
    assert [(word.text, word.line) for word in words("a 'b\nc' d\n\\\ne") if not word.operator] == [
        ("a", 1),
        ("b\nc", 1),
        ("d", 2),
        ("e", 4),
    ]
