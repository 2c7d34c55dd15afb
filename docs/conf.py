"""The site:  sphinx-build -W --keep-going docs docs/_build/html   (after  pip install -e ".[docs]")."""

import json
import shutil
from pathlib import Path

import latex2mathml.converter
from docutils import nodes

import hbm_learn

HERE = Path(__file__).parent

project = "hbm_learn"
author = "The hbm_learn developers"
copyright = author
version = release = hbm_learn.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton"]
html_math_renderer = "mathml"  # formulas are in the page itself: nothing is fetched
exclude_patterns = ["_build", "README.md", "**.ipynb_checkpoints"]
html_theme = "furo"
html_title = "hbm_learn"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["mystnb.unknown_mime_type"]

nb_execution_mode = "force"
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False  # autodoc lists them
numpydoc_attributes_as_param_list = True


def copy_notebooks() -> list[str]:
    """examples/*.ipynb → docs/notebooks/; names of those left as they are: newer copies, with outputs."""
    target = HERE / "notebooks"
    target.mkdir(exist_ok=True)
    executed = []
    for source in sorted((HERE.parent / "examples").glob("*.ipynb")):
        copy = target / source.name
        newer = copy.exists() and copy.stat().st_mtime >= source.stat().st_mtime
        if newer and any(cell.get("outputs") for cell in json.loads(copy.read_text())["cells"]):
            executed.append(f"notebooks/{source.name}")
        else:
            shutil.copy(source, copy)
    return executed


nb_execution_excludepatterns = copy_notebooks()


def inline_math(writer, node) -> None:
    writer.body.append(latex2mathml.converter.convert(node.astext()))
    raise nodes.SkipNode


def display_math(writer, node) -> None:
    formula = latex2mathml.converter.convert(node.astext(), display="block")
    writer.body.append(f'<div class="math" style="overflow-x: auto; margin: 1em 0">{formula}</div>')
    raise nodes.SkipNode


def setup(app) -> None:
    app.add_html_math_renderer("mathml", (inline_math, None), (display_math, None))
