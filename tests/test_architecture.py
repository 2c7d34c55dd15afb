"""Data flows one way: no stage imports one that comes after it."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "hbm_learn"

# Each stage with what it may not import. Kernels import nothing of ours; nobody but the outermost layer imports plots.
LATER = ["estimator", "plots", "report", "cli"]
FORBIDDEN = {
    "_kernels": [
        "alphabet", "interactions", "model", "samples", "moments", "inference", "sampling", "inversion", "uncertainty",
        "conditionals", "scoring", "datasets", *LATER,
    ],
    "alphabet": ["interactions", "model", "samples", "moments", "inference", "sampling", "inversion", *LATER],
    "interactions": ["model", "samples", "moments", "inference", "sampling", "inversion", *LATER],
    "model": ["samples", "moments", "inference", "sampling", "inversion", "datasets", *LATER],
    "samples": ["model", "moments", "inference", "sampling", "inversion", *LATER],
    "moments": ["model", "inference", "sampling", "inversion", *LATER],
    "sampling": ["samples", "moments", "inversion", "uncertainty", *LATER],
    "inference": ["samples", "moments", "inversion", "uncertainty", *LATER],
    "inversion": ["uncertainty", "conditionals", "scoring", *LATER],
    "uncertainty": LATER,
    "conditionals": ["inversion", *LATER],
    "estimator": ["plots", "report", "cli"],
}  # fmt: skip


def sources(stage):
    folder = PACKAGE / stage
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{stage}.py"]


def imported(path):
    """Modules of ours that a file imports, as dotted names without the package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hbm_learn":
            inner = node.module.removeprefix("hbm_learn").lstrip(".")
            yield from [inner] if inner else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from [alias.name.removeprefix("hbm_learn.") for alias in node.names if "hbm_learn." in alias.name]


@pytest.mark.parametrize("stage", FORBIDDEN)
def test_imports_run_one_way(stage):
    assert sources(stage)
    for path in sources(stage):
        for name in imported(path):
            assert name.split(".")[0] not in FORBIDDEN[stage], f"{path.name} imports {name}"


def test_the_check_sees_imports():
    """Its negative control: the estimator does import inversion and moments."""
    found = {name.split(".")[0] for name in imported(PACKAGE / "estimator.py")}
    assert {"inversion", "moments", "uncertainty"} <= found
