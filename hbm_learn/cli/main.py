"""The ``hbm-learn`` command: arguments, help, and how failures are told. What it does is in ``commands``."""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, NoReturn

import hbm_learn
from hbm_learn.cli import commands, values
from hbm_learn.cli.info import info
from hbm_learn.cli.terminal import write_what_can_be_written
from hbm_learn.data.values import MissingCodesWarning
from hbm_learn.inference import METHODS as INFERENCE
from hbm_learn.inversion.parameters import SITES
from hbm_learn.io.tables import FORMATS, WRITTEN
from hbm_learn.sampling import METHODS as SAMPLERS

INTRODUCTION = """\
Learn which variables interact, in pairs, triplets and beyond, from a table of samples: one row a sample, one column a
variable, each with a few values of its own (yes/no, ratings 1…5, spins -1/1, labels such as north/south), or all of
them real numbers.

  hbm-learn info  data.csv                            look at the data first
  hbm-learn fit   data.csv -o model.npz --report report.html
  hbm-learn score model.npz new.csv                   how well the model tells unseen rows
  hbm-learn sample model.npz -n 1000 -o samples.csv   draw from it
  hbm-learn infer model.npz --method dc               its means, variances and log partition function
"""
FIT = """\
Fit a higher-order Boltzmann machine:

  P(x) ∝ exp( Σ h_i x_i - ½ Σ d_i x_i² + Σ_pairs J_ij x_i x_j + Σ_triplets J_ijk x_i x_j x_k + … )

Text makes a column of labels, whose interactions are tables of weights.
The table that is printed holds the interactions with the strongest evidence, and says below what its columns are: the
effect with its interval, z and q of the test, the weight in the coding of the data. Before it stands how far to trust
the fit, and why. Of rows with missing values, what is there is used.
"""
FIT_EXAMPLES = """\
examples:
  hbm-learn fit datasets/planted_triplets.csv --order 3 --fdr 0.05 --report report.html
      test all pairs and triplets, keep those that stand out with at most 5 % false ones, write a report to read
  hbm-learn fit survey.csv --drop id,date --categorical region,party --na -9 --order 2 -o model.npz --table all.csv
      region and party are labels even where they are written as numbers, and -9 stands for missing
  hbm-learn fit sessions.csv --groups subject
      rows of one subject depend on each other, and errors and tests allow for it
  hbm-learn fit spins.npy --interactions "0*1,1*2,0*1*2" --alphabet -1,1
"""


class Parser(argparse.ArgumentParser):
    """Errors on one line, with the exit code 2 of bad input."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"hbm-learn: error: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 0, 2 for bad input, 1 for another failure, 130 after Ctrl-C."""
    argv = sys.argv[1:] if argv is None else argv
    write_what_can_be_written()
    arguments = build_parser().parse_args(_join_negative(argv), Namespace(argv=list(argv)))
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = _show_warning
        try:
            arguments.run(arguments)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            return _fail("interrupted.", 130)
        except OSError as error:
            return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), 2)
        except ValueError as error:
            return _fail(str(error), 2)
        except Exception as error:
            return _fail(f"{type(error).__name__}: {error}", 1)
    return 0


def _fail(message: str, code: int) -> int:
    print(f"hbm-learn: error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    option = f" (--na {message.codes} says that it is missing)" if isinstance(message, MissingCodesWarning) else ""
    print(f"hbm-learn: warning: {' '.join(str(message).split())}{option}", file=sys.stderr)


def _join_negative(argv: Sequence[str]) -> list[str]:
    """``--alphabet -1,1`` as ``--alphabet=-1,1``: argparse takes a list that begins with a minus for an option."""
    joined: list[str] = []
    for word in argv:
        if joined and joined[-1] in ("--alphabet", "--na") and re.match(r"-[\d.]", word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


# ---------------------------------------------------------------------- the arguments


def build_parser() -> Parser:
    """The command line, with a subcommand for each thing to do."""
    parser = Parser(prog="hbm-learn", description=INTRODUCTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"hbm-learn {hbm_learn.__version__}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="command", parser_class=Parser)
    _add_fit(subparsers)
    _add_sample(subparsers)
    _add_score(subparsers)
    _add_infer(subparsers)
    _add_info(subparsers)
    return parser


def _command(subparsers: Any, name: str, run: Any, summary: str, text: str | None = None, epilog: str = "") -> Parser:
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=text or f"{summary[0].upper()}{summary[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _add_fit(subparsers: Any) -> None:
    parser = _command(subparsers, "fit", commands.fit, "learn a model from a table of samples", FIT, FIT_EXAMPLES)
    parser.add_argument("data", help=f"samples: {FORMATS}")
    model = parser.add_argument_group("the model")
    model.add_argument(
        "--order",
        type=values.order,
        default="auto",
        help='largest interaction, or "auto": 3 or 2, by evidence',
    )
    model.add_argument(
        "--interactions",
        type=values.interactions,
        metavar="LIST",
        help="only these, such as a*b,a*b*c, by column names or numbers; @file reads them from a file, one a line",
    )
    model.add_argument(
        "--alphabet",
        type=values.alphabet,
        default="auto",
        metavar="VALUES",
        help='values such as -1,1; "real"; interval:0,1; or "auto", the values seen (the default)',
    )
    model.add_argument(
        "--powers", type=int, default=1, metavar="K", help="interactions also in x², … x^K of numbers (default 1)"
    )
    model.add_argument(
        "--site",
        choices=SITES,
        default="free",
        help="what a number may do by itself: a weight for every value (free, the default), or h x - d x²/2",
    )
    table = parser.add_argument_group("the table")
    _add_reading(table)
    table.add_argument(
        "--groups",
        metavar="COLUMN",
        help="labels of rows that belong together (a subject, a block of time), which may depend on each other; this"
        " column is not fitted",
    )
    how = parser.add_argument_group("how it is fitted")
    how.add_argument(
        "--refine",
        type=values.refine,
        default="auto",
        metavar="METHOD",
        help="what removes the bias of the closed form: auto (the default), none, likelihood,"
        " pseudolikelihood, screening",
    )
    how.add_argument(
        "--alpha",
        type=values.alpha,
        default="auto",
        help='prior precision of the couplings: "auto" (learnt), a number, or one for each order: 10,100',
    )
    how.add_argument("--l1-ratio", type=float, default=0.0, metavar="SHARE", help="share of the ℓ1 penalty (default 0)")
    how.add_argument(
        "--fdr", type=float, metavar="RATE", help="keep only what passes tests at this false-discovery rate"
    )
    _add_common(how)
    out = parser.add_argument_group("what comes out")
    out.add_argument("--level", type=float, default=0.95, help="level of the intervals (default 0.95)")
    out.add_argument(
        "--top", type=values.count, default=20, metavar="N", help="rows of the table on the terminal (default 20)"
    )
    out.add_argument("-o", "--output", metavar="MODEL.npz", help="write the model")
    out.add_argument("--table", metavar="FILE.csv", help="write all interactions as a table")
    out.add_argument("--report", metavar="REPORT.html", help="write a report with tables and pictures, in one file")


def _add_sample(subparsers: Any) -> None:
    parser = _command(subparsers, "sample", commands.sample, "draw samples from a model")
    parser.add_argument("model", help="a model written by fit -o")
    parser.add_argument("-n", "--number", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("-o", "--output", metavar="FILE", help=f"{WRITTEN}; without it, CSV on the terminal")
    parser.add_argument(
        "--method",
        choices=["auto", *SAMPLERS],
        default="auto",
        help="auto (the default) is exact up to 2**20 states and Gibbs sampling beyond; tempering is for rugged models",
    )
    _add_given_values(parser)
    _add_common(parser)


def _add_score(subparsers: Any) -> None:
    text = (
        "Score rows under a model: the pseudo-log-likelihood Σ_i ln P(x_i | the rest of the row), in nats.\n"
        "Higher is better; compare models on the same rows, best on rows that were not used to fit."
    )
    parser = _command(subparsers, "score", commands.score, "score a table of samples under a model", text)
    parser.add_argument("model", help="a model written by fit -o")
    parser.add_argument("data", help=f"samples: {FORMATS}; columns are matched by name if the model has names")
    _add_na(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write the score of each row")
    parser.add_argument("--log-likelihood", action="store_true", help="also the mean of ln P(x), which needs ln Z")
    _add_common(parser)


def _add_infer(subparsers: Any) -> None:
    parser = _command(subparsers, "infer", commands.infer, "means, variances and log partition function of a model")
    parser.add_argument("model", help="a model written by fit -o")
    parser.add_argument(
        "--method",
        choices=list(INFERENCE),
        default="dc",
        help="dc (the default): mean field with diagonal consistency; exact: up to 2**24 states; gibbs: by sampling",
    )
    _add_given_values(parser)
    parser.add_argument("-o", "--output", metavar="FILE.npz", help="write m, v and the covariances chi")
    parser.add_argument("--top", type=values.count, default=20, metavar="N", help="variables to print (default 20)")
    _add_common(parser)


def _add_info(subparsers: Any) -> None:
    text = (
        "Say what is in a model, or in a table: what kind of variable each column is, its values and how often they\n"
        "occur, missing cells, what looks wrong, and what fit would do with it."
    )
    parser = _command(subparsers, "info", info, "say what is in a model or in a table of samples", text)
    parser.add_argument("data", metavar="file", help=f"a model, or samples: {FORMATS}")
    parser.add_argument("--top", type=values.count, default=20, metavar="N", help="rows to print (default 20)")
    _add_reading(parser.add_argument_group("the table"))


def _add_reading(parser: Any) -> None:
    parser.add_argument("--columns", type=values.name_list, metavar="NAMES", help="use only these columns: a,b,c")
    parser.add_argument("--drop", type=values.name_list, metavar="NAMES", help="leave these columns out: id,date")
    parser.add_argument(
        "--categorical",
        type=values.categorical,
        default="auto",
        metavar="NAMES",
        help='columns of labels beside those of text: a,b,c; "auto" (the default): text and categories alone; "none"',
    )
    parser.add_argument(
        "--given",
        type=values.name_list,
        metavar="NAMES",
        help="columns that act on the others but are not modelled (groups, covariates, lags): a,b; they may be real"
        " numbers",
    )
    _add_na(parser)


def _add_na(parser: Any) -> None:
    parser.add_argument(
        "--na", type=values.name_list, metavar="VALUES", help="values that stand for missing, such as -9,unknown"
    )


def _add_given_values(parser: Any) -> None:
    parser.add_argument(
        "--given",
        type=values.name_list,
        metavar="VALUES",
        help="values of the given variables of the model, in their order: patient,40",
    )


def _add_common(parser: Any) -> None:
    parser.add_argument("--seed", type=int, metavar="N", help="seed of everything random, for the same result again")
    parser.add_argument("--jobs", type=values.jobs, metavar="N", help="threads (default: all cores)")


# ---------------------------------------------------------------------- text to parameters
