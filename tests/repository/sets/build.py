# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What builds and runs CUDA programs: the compiler, the libraries they are linked with, and the container toolkit.

Names and places are those of NVIDIA's packages. The simulated nvcc writes down for which cards a program is built.
"""

import glob
import importlib.util
import os

from package import CONTAINER_TOOLKIT, DISTRIBUTION, ROOT, SIMULATOR, STATE, Package

_COMPILER = '''#!/usr/bin/python3 -IS
"""A simulated nvcc: it puts together what it is given, and which cards that was built for. Nothing is compiled."""

import os
import re
import sys

HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
RELEASE = "%(release)s"


def headers_are_there(text, folders):
    for name in re.findall(r"^#include <([a-z_]+[.]h)>", text, re.MULTILINE):
        if not any(os.path.exists(os.path.join(folder, name)) for folder in folders):
            sys.exit("fatal error: %%s: No such file or directory" %% name)


def main():
    words = sys.argv[1:]
    if "--version" in words:
        print("nvcc: NVIDIA (R) Cuda compiler driver [simulated]\\nCuda compilation tools, release %%s, V%(patch)s" %% RELEASE)
        return
    output = words[words.index("-o") + 1]
    folders = [os.path.join(HOME, "include"), "/usr/include", *(word[2:] for word in words if word.startswith("-I"))]
    codes = re.findall(r"code=((?:sm|compute)_[0-9]+)", " ".join(words)) + [word[6:] for word in words if word.startswith("-arch=")]
    sources = [word for word in words if word.endswith((".cu", ".o")) and word != output]
    if "-ccbin" not in words and "-fatbin" not in words:
        sys.exit("nvcc fatal: no host compiler")
    text = "".join(open(source).read() for source in sources)
    headers_are_there(text, folders)
    if "-fatbin" in words:
        text = " ".join(codes) + "\\n"
    elif "-c" not in words:
        text = "#!/usr/bin/python3 -IS\\nCODES = %%r\\n%%s" %% (codes, text)
    with open(output, "w") as handle:
        handle.write(text)
    if "-c" not in words and "-fatbin" not in words:
        os.chmod(output, 0o755)


main()
'''


def toolkit(release, nvcc, runtime, cublas, nccl):
    """The packages of one CUDA release that the roles ask for, with what they depend on."""
    dash = release.replace(".", "-")
    home = "/usr/local/cuda-" + release
    include, library = home + "/include/", home + "/targets/x86_64-linux/lib/"
    depends = {
        "cuda-nvcc-": "cuda-crt-%s, libnvvm-%s" % (dash, dash),
        "cuda-cudart-dev-": "cuda-cudart-%s, cuda-driver-dev-%s" % (dash, dash),
        "cuda-cudart-": "cuda-toolkit-%s-config-common" % dash,
        "libcublas-dev-": "libcublas-" + dash,
    }
    files = {
        ("cuda-nvcc-", nvcc): {home + "/bin/nvcc": _COMPILER % {"release": release, "patch": nvcc.split("-")[0]}},
        ("cuda-crt-", nvcc): {include + "crt/host_defines.h": ""},
        ("libnvvm-", nvcc): {home + "/nvvm/libdevice/libdevice.10.bc": ""},
        ("cuda-cudart-dev-", runtime): {include + "cuda_runtime.h": "", include + "cuda.h": ""},
        ("cuda-cudart-", runtime): {library + "libcudart.so.13": ""},
        ("cuda-driver-dev-", runtime): {library + "stubs/libcuda.so": ""},
        ("libcublas-dev-", cublas): {include + "cublas_v2.h": ""},
        ("libcublas-", cublas): {library + "libcublas.so.13": ""},
    }
    for (name, version), content in files.items():
        yield Package(name + dash, version, fields={"Depends": depends[name]} if name in depends else {}, files=content)
    depends = {"Depends": "cuda-toolkit-13-config-common"}
    yield Package("cuda-toolkit-%s-config-common" % dash, runtime, fields=depends, architecture="all")
    yield Package("libnccl2", nccl, files={"/usr/lib/x86_64-linux-gnu/libnccl.so.2": ""})
    depends = {"Depends": "libnccl2 (= %s)" % nccl}
    yield Package("libnccl-dev", nccl, fields=depends, files={"/usr/include/nccl.h": ""})


_NODE = """#!/usr/bin/python3 -IS
# A simulated tool: no GPU is used.
import os
import sys

STATE = os.environ.setdefault("KENTINO_SIM_STATE", "%s")
sys.path.insert(0, "%s")
from simnode import cuda
from simnode.state import Node


def gpus(node):
    found, code, words = cuda.devices(node)
    if code or not os.path.exists(STATE + "/root/proc/driver/nvidia/version"):
        sys.exit("nvml error: driver not loaded" if not code else words)
    return found


""" % (STATE, SIMULATOR)

_CLI = (
    _NODE
    + """node = Node(STATE)
found = gpus(node)
if sys.argv[1:] != ["info"]:
    sys.exit("simulated nvidia-container-cli: only info")
print("NVRM version:   %s\\nCUDA version:   %s" % (node.get("driver"), node.get("cuda")))
for number, gpu in enumerate(found):
    print("\\nDevice Index:   %d\\nModel:          %s\\nGPU UUID:       %s" % (number, gpu.get("name"), gpu.get("uuid")))
"""
)

_CTK = (
    _NODE
    + '''import glob

FOLDERS = ("/etc/cdi", "/var/run/cdi")


def specification():
    names = [name for number, gpu in enumerate(gpus(Node(STATE))) for name in (str(number), gpu.get("uuid"))] + ["all"]
    return "---\\ncdiVersion: 0.5.0\\nkind: nvidia.com/gpu\\ndevices:\\n" + "".join("    - name: \\"%s\\"\\n" % name for name in names)


def listed():
    for path in sorted(path for folder in FOLDERS for path in glob.glob(folder + "/*.yaml")):
        with open(path) as handle:
            for line in handle:
                if line.strip().startswith("- name:"):
                    yield "nvidia.com/gpu=" + line.split('"')[1]


def configure():
    """What the real one does with containerd since 1.18: a file of its own, and a line that imports it."""
    own, top = "/etc/containerd/conf.d/99-nvidia.toml", "/etc/containerd/config.toml"
    os.makedirs(os.path.dirname(own), exist_ok=True)
    with open(own, "w") as handle:
        handle.write("""version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
    BinaryName = "/usr/bin/nvidia-container-runtime"
""")
    text = open(top).read() if os.path.exists(top) else "version = 2\\n"
    if "/etc/containerd/conf.d/*.toml" not in text:
        with open(top, "w") as handle:
            handle.write('imports = ["/etc/containerd/conf.d/*.toml"]\\n' + text)


words = sys.argv[1:]
if words == ["--version"]:
    print("NVIDIA Container Toolkit CLI version 1.18.1")
elif words[:2] == ["cdi", "list"]:
    found = list(listed())
    sys.stderr.write('level=info msg="Found %d CDI devices"\\n' % len(found))
    print("\\n".join(found))
elif words[:2] == ["cdi", "generate"]:
    output = [word[9:] for word in words if word.startswith("--output=")]
    text = specification()
    if output:
        os.makedirs(os.path.dirname(output[0]), exist_ok=True)
    with open(output[0], "w") if output else sys.stdout as handle:
        handle.write(text)
elif words == ["runtime", "configure", "--runtime=containerd"]:
    configure()
else:
    sys.exit("simulated nvidia-ctk: unknown command %s" % " ".join(words))
'''
)

_TOOLKIT = "1.18.1-1"
_REFRESH = """[Unit]
Description=Refresh NVIDIA CDI specification file (simulated)
[Service]
Type=oneshot
ExecStart=/usr/bin/nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml
[Install]
WantedBy=multi-user.target
"""
_WATCH = """[Unit]
Description=Trigger CDI refresh on NVIDIA driver install events (simulated)
[Path]
PathChanged=/lib/modules/%v/modules.dep
[Install]
WantedBy=multi-user.target
"""
_ENABLE = "systemctl enable --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service >/dev/null 2>&1 || true\n"

_LOADER = {"/etc/ld.so.conf.d/988_cuda-13.conf": "/usr/local/cuda-13/targets/x86_64-linux/lib\n"}

PACKAGES = [
    Package("cuda-toolkit-13-config-common", "13.1.80-1", files=_LOADER, architecture="all"),
    *toolkit("13.0", "13.0.88-1", "13.0.96-1", "13.1.0.3-1", "2.28.9-1+cuda13.0"),
    *toolkit("13.1", "13.1.115-1", "13.1.80-1", "13.2.1.1-1", "2.29.3-1+cuda13.1"),
    Package("libnvidia-container1", _TOOLKIT, repository=CONTAINER_TOOLKIT),
    Package(
        "libnvidia-container-tools",
        _TOOLKIT,
        fields={"Depends": "libnvidia-container1 (>= %s)" % _TOOLKIT},
        files={"/usr/bin/nvidia-container-cli": _CLI},
        repository=CONTAINER_TOOLKIT,
    ),
    Package(
        "nvidia-container-toolkit-base",
        _TOOLKIT,
        files={
            "/usr/bin/nvidia-ctk": _CTK,
            "/usr/bin/nvidia-container-runtime": "#!/bin/sh\nexit 1\n",
            "/etc/systemd/system/nvidia-cdi-refresh.service": _REFRESH,
            "/etc/systemd/system/nvidia-cdi-refresh.path": _WATCH,
        },
        scripts={"postinst": _ENABLE},
        repository=CONTAINER_TOOLKIT,
    ),
    Package(
        "nvidia-container-toolkit",
        _TOOLKIT,
        fields={"Depends": "libnvidia-container-tools (>= %s), nvidia-container-toolkit-base (= %s)" % (_TOOLKIT, _TOOLKIT)},
        files={"/usr/bin/nvidia-container-runtime-hook": "#!/bin/sh\nexit 1\n"},
        repository=CONTAINER_TOOLKIT,
    ),
]


def bindings():
    """NVIDIA's own bindings, from where this or the tests' Python has them."""
    found = importlib.util.find_spec("pynvml")
    paths = [found.origin] if found and found.origin else glob.glob(os.path.join(ROOT, ".venv/lib/python3*/site-packages/pynvml.py"))
    if not paths:
        raise SystemExit("pynvml is nowhere: make .venv first (make check), or install nvidia-ml-py")
    return paths[0]


# Debian has it in contrib, which the test nodes do not ask for.
PACKAGES.append(
    Package(
        "python3-pynvml",
        "12.550.89-3",
        fields={"Depends": "python3"},
        copies={"/usr/lib/python3/dist-packages/pynvml.py": bindings()},
        architecture="all",
        repository=DISTRIBUTION,
    )
)
