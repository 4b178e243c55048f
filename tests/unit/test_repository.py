# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must hold for the repository as a whole."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ROOT / "plugins/module_utils"
PURE = ("_parse", "_judge", "_report", "_knowledge")
# Which layers a layer may import besides itself.
MAY_IMPORT = {
    "_knowledge": set(),
    "_report": {"_knowledge"},
    "_parse": {"_knowledge"},
    "_judge": {"_knowledge", "_report", "_parse"},
    "_probe": {"_knowledge", "_report", "_parse"},
    "_check": {"_knowledge", "_report", "_parse", "_judge", "_probe"},
    "_cli": {"_knowledge", "_report", "_parse", "_judge", "_probe", "_check"},
}
# The words that every layer speaks (verdicts, severities, actions); it imports nothing itself.
VOCABULARY = "_report.model"
# In a pure layer nothing may come from outside: no file, process, network, clock or environment.
TOUCHES_THE_NODE = {
    "asyncio", "ctypes", "fcntl", "glob", "http", "io", "multiprocessing", "os", "pathlib", "pynvml", "random", "select", "selectors",
    "shutil", "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time", "urllib",
}  # fmt: skip
TOUCHING_CALLS = {"open", "print", "input", "exec", "eval", "__import__"}
CODE_SUFFIXES = {".py", ".c", ".h", ".sh"}


def tracked_files() -> t.List[Path]:
    """All files that git has or would take; in an unpacked archive, all files."""
    argv = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        skipped = {".git", ".venv", ".collections", "build", "__pycache__"}
        found = [path for path in ROOT.rglob("*") if not skipped & set(path.relative_to(ROOT).parts)]
    else:
        found = [ROOT / name for name in done.stdout.split("\0") if name]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


FILES = tracked_files()
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
MODULES = sorted(path for path in (ROOT / "plugins/modules").glob("*.py"))
LAYER_FILES = sorted(path for path in LAYERS.rglob("*.py"))


# Their module is only where the documentation stands.
ACTIONS = {path.stem for path in (ROOT / "plugins/action").glob("*.py")}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def load(path: Path) -> t.Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports(path: Path) -> t.Set[str]:
    """Dotted names of all that a file imports; relative ones resolved to C(ansible_collections.kentino.gpu...)."""
    package = ["ansible_collections", "kentino", "gpu", *path.relative_to(ROOT).parts[:-1]]
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            found |= {".".join([*module, alias.name]) for alias in node.names}
    return found


def modules_imported(path: Path) -> t.Set[str]:
    return {name.split(".")[0] for name in imports(path)}


def layers_imported(path: Path) -> t.Set[str]:
    prefix = "ansible_collections.kentino.gpu.plugins.module_utils."
    own = {name[len(prefix) :] for name in imports(path) if name.startswith(prefix)}
    return {name.split(".")[0] for name in own if not name.startswith(VOCABULARY + ".")}


def test_the_tests_of_this_file_see_the_repository():
    """The rest says nothing where these lists are empty."""
    assert len(FILES) > 50
    assert {path.relative_to(LAYERS).parts[0] for path in LAYER_FILES} == set(MAY_IMPORT)
    assert len(MODULES) >= 4
    assert ROLES


def test_imports_run_one_way():
    wrong = {}
    for path in LAYER_FILES:
        layer = path.relative_to(LAYERS).parts[0]
        wrong[name_of(path)] = layers_imported(path) - {layer} - MAY_IMPORT[layer]
    assert not {name: layers for name, layers in wrong.items() if layers}


def test_the_vocabulary_imports_nothing_of_ours():
    assert not {name for name in imports(LAYERS / (VOCABULARY.replace(".", "/") + ".py")) if name.startswith("ansible")}


def test_pure_layers_touch_nothing():
    wrong = {}
    for path in LAYER_FILES:
        if path.relative_to(LAYERS).parts[0] in PURE:
            calls = {node.func.id for node in ast.walk(tree(path)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
            wrong[name_of(path)] = modules_imported(path) & TOUCHES_THE_NODE | calls & TOUCHING_CALLS
    assert not {name: words for name, words in wrong.items() if words}


def test_layers_need_only_the_standard_library():
    """They run on nodes, in a node's own command line and in tests alike. What is not always there is asked for where it is used."""
    allowed = set(sys.stdlib_module_names) | {"ansible_collections", "pynvml", "torch"}
    wrong = {name_of(path): modules_imported(path) - allowed for path in LAYER_FILES}
    assert not {name: modules for name, modules in wrong.items() if modules}


def test_layers_are_namespace_packages():
    assert not [name_of(path) for path in FILES if path.name == "__init__.py" and (ROOT / "plugins") in path.parents]


def is_template(value: t.Any) -> bool:
    return isinstance(value, str) and "{{" in value


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_documented_defaults_are_the_defaults(role):
    options = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    defaults = load(role / "defaults/main.yml") or {}
    documented = {name: option["default"] for name, option in options.items() if "default" in option}
    assert documented == {name: value for name, value in defaults.items() if not is_template(value)}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_default_taken_from_the_inventory_is_documented_by_name(role):
    """As a value it cannot be: a template is no value of the option's type, and the documentation would not build."""
    options = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    for name, value in (load(role / "defaults/main.yml") or {}).items():
        if is_template(value):
            assert set(re.findall(r"\bgpu_\w+", value)) <= set(re.findall(r"\bgpu_\w+", str(options[name]["description"]))), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_role_runs_in_a_scenario(role):
    """Its own, or that of the playbook which uses it. A role that only other roles call runs where they do."""
    callers = [path for path in (ROOT / "roles").rglob("tasks/*.yml") if path.parents[1] != role]
    called = any("kentino.gpu.%s\n" % role.name in path.read_text() for path in callers)
    scenarios = [path.parent.name for path in (ROOT / "extensions/molecule").glob("*/converge.yml")]
    playbooks = {path.stem: path.read_text() for path in (ROOT / "playbooks").glob("*.yml")}
    assert called or any("kentino.gpu.%s\n" % role.name in playbooks.get(scenario, "") for scenario in scenarios)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_variables_of_a_role_carry_its_name(role):
    own = re.compile(r"^%s_" % role.name)
    assert all(own.match(name) for name in load(role / "defaults/main.yml") or {})


def returned(module: Path) -> t.Dict[str, t.Any]:
    """What a module's documentation says that it returns."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["RETURN"]:
            return yaml.safe_load(ast.literal_eval(node.value)) or {}
    return {}


def test_every_check_is_in_the_action_group():
    """A check is what returns a verdict: one default for all of them is set in one place."""
    group = load(ROOT / "meta/runtime.yml")["action_groups"]["checks"]
    assert sorted(group) == sorted(path.stem for path in MODULES if "verdict" in returned(path) and path.stem not in ACTIONS)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_every_module_has_an_integration_target(module):
    # ansible-test would take a role of that name for the target.
    name = module.stem + ("_module" if (ROOT / "roles" / module.stem).is_dir() else "")
    target = ROOT / "tests/integration/targets" / name
    assert (target / "tasks/main.yml").is_file()
    assert any(re.search(r"kentino\.gpu\.%s\b" % module.stem, path.read_text()) for path in target.rglob("*.yml"))


@pytest.mark.parametrize("scenario", sorted((ROOT / "extensions/molecule").glob("*/molecule.yml")), ids=lambda path: path.parent.name)
def test_every_scenario_verifies(scenario):
    if scenario.parent.name == "default":
        assert (scenario.parent / "create.yml").is_file()
        assert (scenario.parent / "destroy.yml").is_file()
    else:
        assert (scenario.parent / "converge.yml").is_file()
        assert [path for path in (scenario.parent / "tests").glob("test_*.py") if "def test_" in path.read_text()]


def is_code(path: Path) -> bool:
    if path.suffix in CODE_SUFFIXES or path.name in ("Makefile", "run"):
        return True
    with path.open("rb") as handle:
        return handle.read(2) == b"#!"


def test_code_says_its_licence():
    def says(path: Path) -> bool:
        return "SPDX-License-Identifier: GPL-3.0-or-later" in "".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:6])

    assert not [name_of(path) for path in FILES if is_code(path) and not says(path)]


# Paths and hosts of whoever built this: what is here can be built anywhere, from whatever mirror a machine is set up with.
OF_A_WORKPLACE = ("/work/", "pypi.org", "pythonhosted.org", "deb.debian.org", "npmjs.org", "galaxy.ansible.com")


def test_no_file_names_a_workplace_or_a_registry():
    others = [path for path in FILES if path != Path(__file__).resolve()]
    found = {name_of(path): [word for word in OF_A_WORKPLACE if word.encode() in path.read_bytes()] for path in others}
    assert not {name: words for name, words in found.items() if words}


def test_no_room_has_grown_into_a_house():
    code = [path for path in FILES if path.suffix == ".py" and "_knowledge" not in path.parts]
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in code}
    assert not {name: count for name, count in lines.items() if count > 700}


def test_every_test_is_where_it_is_collected():
    tests = [name_of(path) for path in FILES if path.name.startswith("test_") and path.suffix == ".py"]
    assert not [name for name in tests if not name.startswith(("tests/unit/", "tests/dryrun/", "tests/drills/", "extensions/molecule/"))]


def targets() -> t.Set[str]:
    return set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_documents_name_only_commands_that_exist(document):
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", (ROOT / document).read_text()))
    assert named <= targets()


def test_the_readme_names_its_two_commands():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text


def test_paths_in_the_documents_exist():
    words = set()
    for document in ("README.md", "CONTRIBUTING.md"):
        words |= set(
            re.findall(
                r"`((?:plugins|playbooks|roles|tests|bin|docs|extensions|inventory\.example|changelogs)/[^`\s*<]*)`",
                (ROOT / document).read_text(),
            )
        )
    assert words
    assert not [word for word in words if not (ROOT / word).exists()]


def test_only_scripts_are_executable():
    assert not [name_of(path) for path in FILES if os.access(path, os.X_OK) and path.read_bytes()[:2] != b"#!"]


def test_versions_of_the_support_matrix_agree():
    """README, collection metadata and the pinned requirements speak of the same ansible-core."""
    floor = load(ROOT / "meta/runtime.yml")["requires_ansible"]
    assert floor == ">=2.19.0"
    assert "2.19" in (ROOT / "README.md").read_text()
    assert "ansible-core==2.19" in (ROOT / "tests/tools/requirements-demo.txt").read_text()
    assert {load(role / "meta/main.yml")["galaxy_info"]["min_ansible_version"] for role in ROLES} == {"2.19"}
