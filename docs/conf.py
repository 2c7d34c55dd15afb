"""The site:  sphinx-build -W --keep-going docs docs/_build/html   (after  pip install -e ".[docs]")."""

import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import docstrings  # noqa: E402

import hbm_learn  # noqa: E402

project = "hbm_learn"
author = "The hbm_learn developers"
copyright = author
version = release = hbm_learn.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx_copybutton"]
exclude_patterns = ["_build", "README.md", "**.ipynb_checkpoints"]
html_theme = "furo"
html_title = "hbm_learn"
html_show_sphinx = False

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]

# Notebooks that bring their outputs are shown as they are; the others are executed here, and an error stops the build.
nb_execution_mode = "auto"
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True


def copy_notebooks() -> None:
    """examples/*.ipynb → docs/notebooks/, where a newer copy (an executed one) is kept."""
    target = HERE / "notebooks"
    target.mkdir(exist_ok=True)
    for source in sorted((HERE.parent / "examples").glob("*.ipynb")):
        copy = target / source.name
        if not copy.exists() or copy.stat().st_mtime < source.stat().st_mtime:
            shutil.copy(source, copy)


copy_notebooks()


def setup(app) -> None:
    app.connect("autodoc-process-docstring", docstrings.process)
