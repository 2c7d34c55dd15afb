"""The rules of the house: data flows one way, folders form no cycle, nobody reads another module's private names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "hbm_learn"

# From the foundation up: a module or folder imports only what stands in a line before its own, or in its own line.
LAYERS = [
    ["_kernels", "_threads", "_validation", "linalg", "names", "lagged"],
    ["space"],
    ["interactions"],
    ["terms", "io"],
    ["model"],
    ["states", "gaussian", "consistency", "random_models", "datasets", "optimise"],
    ["data"],
    ["considered", "sampling"],
    ["inference"],
    ["inversion", "completions"],
    ["conditionals", "assessment"],
    ["fitted", "learning", "settings"],
    ["estimator"],
    ["plots"],
    ["report"],
    ["cli"],
    ["__init__", "__main__"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules() -> dict[str, Path]:
    """Dotted name (without the package) → file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


MODULES = modules()


def imported(path: Path, everything: bool = True) -> set[str]:
    """Modules of ours that a file imports, as dotted names without the package; at module level only, if asked."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if everything else iter(_at_module_level(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hbm_learn":
            inner = node.module.removeprefix("hbm_learn").lstrip(".")
            for alias in node.names:
                name = f"{inner}.{alias.name}".lstrip(".")
                found.add(name if name in MODULES else inner or alias.name)
        elif isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("hbm_learn.") for alias in node.names if "hbm_learn." in alias.name}
    return {name for name in found if name in MODULES}


def _at_module_level(tree: ast.Module) -> list[ast.stmt]:
    """Statements outside functions and of ``if TYPE_CHECKING``."""
    out: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        out.append(node)
    return out


def top(name: str) -> str:
    return name.split(".")[0]


def test_every_module_has_its_place():
    assert {top(name) for name in MODULES} <= set(RANK)


@pytest.mark.parametrize("name", MODULES)
def test_imports_run_one_way(name):
    for other in imported(MODULES[name]):
        assert RANK[top(other)] <= RANK[top(name)], f"{name} imports {other}, which stands above it"


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """A cycle of a directed graph, or an empty list."""
    state: dict[str, int] = {}

    def visit(node: str, path: list[str]) -> list[str]:
        state[node] = 1
        for following in sorted(graph.get(node, ())):
            if state.get(following) == 1:
                return [*path, node, following]
            if following not in state:
                found = visit(following, [*path, node])
                if found:
                    return found
        state[node] = 2
        return []

    for node in sorted(graph):
        if node not in state:
            found = visit(node, [])
            if found:
                return found
    return []


def test_folders_form_no_cycle():
    graph: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        graph.setdefault(top(name), set()).update(top(o) for o in imported(path) if top(o) != top(name))
    graph.pop("__init__", None)
    assert cycle(graph) == []


def test_modules_form_no_cycle():
    assert cycle({name: imported(path, everything=False) - {name} for name, path in MODULES.items()}) == []


def test_the_checks_can_fail():
    """Negative controls: the estimator does import inversion; a cycle is seen."""
    assert "inversion" in {top(name) for name in imported(MODULES["estimator"])}
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]


@pytest.mark.parametrize("name", MODULES)
def test_private_names_stay_private(name):
    """No ``other_module._name``, no ``from module import _name``, no ``est._attribute`` outside its module."""
    tree = ast.parse(MODULES[name].read_text())
    own = {"self", "cls", "model", "other"}  # methods of a class read each other's
    allowed_modules = {"_kernels", "_threads", "_validation", "_style", "_parameters"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("hbm_learn"):
            private = [a.name for a in node.names if a.name.startswith("_") and a.name not in allowed_modules]
            assert not private, f"{name} imports {private} from {node.module}"
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            reader = node.value.id if isinstance(node.value, ast.Name) else ""
            if name == "model.machine" and reader in own:
                continue
            assert reader in {"self", "cls", "super", ""} or node.attr == "_replace", (
                f"{name} reads {reader}.{node.attr}"
            )


def test_few_underscore_files_at_the_top():
    private = [p.name for p in PACKAGE.iterdir() if p.name.startswith("_") and not p.name.startswith("__")]
    assert len(private) <= 3, private


def test_kernels_import_nothing_of_ours():
    for name, path in MODULES.items():
        if top(name) == "_kernels":
            assert {top(other) for other in imported(path)} <= {"_kernels"}, name


def test_the_closed_form_loads_no_sampler():
    loaded: set[str] = set()
    waiting = ["inversion.closed_form.diagonal"]
    while waiting:
        name = waiting.pop()
        if name not in loaded:
            loaded.add(name)
            waiting += imported(MODULES[name], everything=False) & set(MODULES)
    assert not {name for name in loaded if top(name) in ("sampling", "inference")}


def lines_of_code(path: Path) -> int:
    """Lines without those of docstrings."""
    tree, size = ast.parse(path.read_text()), len(path.read_text().splitlines())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            first = node.body[0]
            size -= (first.end_lineno or first.lineno) - first.lineno + 1
    return size


def test_modules_are_of_readable_size():
    sizes = {name: lines_of_code(path) for name, path in MODULES.items()}
    assert {name: size for name, size in sizes.items() if size > 300} == {}
