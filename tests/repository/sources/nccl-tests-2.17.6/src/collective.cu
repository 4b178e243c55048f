# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

#include <cuda_runtime.h>
#include <nccl.h>
import os
import sys

os.environ.setdefault("KENTINO_SIM_STATE", "/var/lib/simulated-node")
sys.path.insert(0, "/opt/simulated-node/tests/simulator")
from simnode import nccl_tests, state


class BuiltNode(state.Node):
    """The node as a program for these cards sees it."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        if not {"sm_" + gpu.get("compute_capability").replace(".", "") for gpu in self.gpus()} <= set(CODES):
            self.facts["nccl.wrong"] = "7"


nccl_tests.Node = BuiltNode
sys.exit(nccl_tests.main(sys.argv[1:]))
