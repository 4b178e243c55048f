# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NVLink 5 boards need beside Fabric Manager. Their subnet manager has a version of its own."""

from package import Package

# Those of sets/fabric.py from 580 on that the tests put on such a board.
VERSIONS = ("580.95.05", "580.105.08")

PACKAGES = [
    Package("nvlsm", "2025.06.11-1", files={"/opt/nvidia/nvlsm/sbin/nvlsm": "#!/bin/bash\nexec -a nvlsm sleep infinity\n"}),
    *(
        Package("libnvsdm", version + "-1", files={"/usr/lib/x86_64-linux-gnu/libnvsdm.so.%s" % version: "simulated\n"})
        for version in VERSIONS
    ),
]
