"""Docstrings of everything public are numpydoc, as the tool itself parses it, and agree with the signatures."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
from functools import cached_property
from typing import Any

import pytest
from numpydoc.docscrape import FunctionDoc, get_doc_object
from numpydoc.validate import Validator, validate

import hbm_learn
from hbm_learn import assessment, datasets, inference, inversion, plots, report, sampling
from hbm_learn.assessment.summary import Summary
from hbm_learn.assessment.tests import Tests
from hbm_learn.assessment.trust import Trust
from hbm_learn.data.samples import Samples
from hbm_learn.sampling import ais
from hbm_learn.sampling.diagnostics import Diagnostics

# What numpydoc must have no objection to.
CHECKS = {
    "GL03",  # double blank lines
    "GL05",  # tabs
    "GL06",  # an unknown section
    "GL07",  # sections in another order than numpydoc's
    "GL08",  # no docstring
    "GL10",  # a directive without its colons
    "SS01",  # no summary
    "SS03",  # a summary without a full stop
    "SS04",  # a summary that begins with spaces
    "SS06",  # a summary of several lines
    "PR01",  # parameters that are not documented
    "PR02",  # documented parameters that are not there
    "PR03",  # in another order than in the signature
    "PR04",  # without a type
    "PR05",  # a type that ends in a full stop: a description on the line of the type
    "PR06",  # string for str, boolean for bool, integer for int
    "PR09",  # a description without a full stop
    "PR10",  # no space before the colon
    "RT02",  # a name and a type where one value is returned
    "RT03",  # a return value without a description
    "RT05",  # one without a full stop
    "YD01",  # a generator that does not say what it yields
}
# What a method of one parameter may say in its first line.
BRIEF = {"PR01", "YD01"}


def entry_points() -> list[Any]:
    """Functions and classes that users call, or are given."""
    public: list[Any] = [getattr(hbm_learn, name) for name in hbm_learn.__all__ if name != "datasets"]
    for module in (plots, datasets, report, assessment):
        public += [getattr(module, name) for name in module.__all__]
    public += [*inference.METHODS.values(), *sampling.METHODS.values(), ais.log_partition, inversion.fit]
    return [*public, Tests, Trust, Summary, Diagnostics, Samples]


def full_name(obj: Any) -> str:
    return f"{obj.__module__}.{obj.__qualname__}"


def members(cls: type) -> list[str]:
    """Public methods and properties that a class has from us."""
    kinds = (classmethod, staticmethod, property, cached_property)
    ours = [base for base in cls.__mro__ if base.__module__.startswith("hbm_learn")]
    found = {name: value for base in reversed(ours) for name, value in vars(base).items() if not name.startswith("_")}
    return [
        f"{full_name(cls)}.{name}"
        for name, value in found.items()
        if inspect.isfunction(value) or isinstance(value, kinds) or hasattr(value, "fn")  # fn: of available_if
    ]


CLASSES = [obj for obj in entry_points() if inspect.isclass(obj)]
RESULTS = [cls for cls in CLASSES if dataclasses.is_dataclass(cls) and cls is not hbm_learn.Interval]
# Whose constructors are for the package alone: their class methods build them.
BUILT = [*RESULTS, Samples, hbm_learn.Interactions]
NAMES = sorted(
    {name for obj in entry_points() for name in [full_name(obj), *(members(obj) if inspect.isclass(obj) else [])]}
)


def objections(name: str) -> list[tuple[str, str]]:
    """What numpydoc says of one object, of the things that we hold to."""
    found = [(code, text) for code, text in validate(name)["errors"] if code in CHECKS]
    doc = Validator(get_doc_object(Validator._load_obj(name)))
    if name in map(full_name, BUILT):
        return [(code, text) for code, text in found if code != "PR01"]
    is_member = any(name.startswith(f"{full_name(cls)}.") for cls in CLASSES if cls is not hbm_learn.HBM)
    if is_member and len(doc.signature_parameters) <= 1 and not doc.doc_parameters:
        return [(code, text) for code, text in found if code not in BRIEF]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_parse_and_match_the_signature(name):
    assert objections(name) == []


@pytest.mark.parametrize("cls", RESULTS, ids=[cls.__name__ for cls in RESULTS])
def test_results_document_every_field(cls):
    documented = {
        name.strip() for entry in get_doc_object(cls)["Attributes"] for name in entry.name.removeprefix("*").split(",")
    }
    assert {field.name for field in dataclasses.fields(cls)} <= documented


WITH_EXAMPLES = [obj for obj in entry_points() if ">>>" in (inspect.getdoc(obj) or "")]


@pytest.mark.parametrize("obj", WITH_EXAMPLES, ids=[obj.__name__ for obj in WITH_EXAMPLES])
def test_examples_run_as_written(obj):
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder(recurse=False).find(obj, full_name(obj), globs=dict(vars(hbm_learn))):
        runner.run(test)
    assert runner.tries > 0
    assert runner.failures == 0


def test_everything_that_is_exported_is_held_to_it():
    assert len(NAMES) > 150
    assert "hbm_learn.estimator.HBM.predict_proba" in NAMES


def broken(x, y):
    """Describe what is wrong here

    Parameters
    ----------
    x
        Without a type.
    z : float
        No parameter.
    """


def test_the_checks_can_fail():
    """A negative control: numpydoc sees what is wrong with a docstring."""
    found = {code for code, _ in objections(full_name(broken))}
    assert {"SS03", "PR01", "PR02", "PR04"} <= found
    assert not FunctionDoc(broken)["Returns"]
