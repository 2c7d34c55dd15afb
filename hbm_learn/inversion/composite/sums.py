"""Composite likelihoods: the mean loss of each variable given the others, and its derivatives, on blocks of rows.

    S_i(θ) = Σ_rows w ℓ(x_i; η_i(x)),   θ = (own, J)

The outputs η are linear in θ: a pass over the data builds the monomials of a few rows at a time, multiplies them with
the couplings, and multiplies the derivatives of the losses back: 4NK flops a row for N columns and K monomials.
Products are float32 for large data, sums float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hbm_learn._kernels import conditional
from hbm_learn._threads import in_threads
from hbm_learn.data.chunks import Chunks
from hbm_learn.data.ones import Ones
from hbm_learn.data.reduce import reduce
from hbm_learn.data.rows import Block, Rows
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.composite.by_ones import OnesMap
from hbm_learn.inversion.composite.design import Centring, FieldMap
from hbm_learn.inversion.composite.losses import Loss, SiteLosses
from hbm_learn.inversion.parameters import UNBOUNDED, Parameters

# Entries of the monomials of one part of the rows: they stay in cache between the two products.
_PART = 2**20
# Entries of the fields of one part of rows that are held by their ones: what is made once a part should not weigh.
_PART_OF_ONES = 2**22
# A pass below this many flops is done in float64.
_SMALL = 2e8
# Rows of the Hessian's subsample, to begin with: so many for each parameter that a column has for itself (of the P in
# all, shared by the columns). A step with the subsampled Hessian leaves a share of about 1/10 of the decrement.
_ROWS_A_PARAMETER = 16


@dataclass(frozen=True, eq=False)
class Predictor:
    """θ as the passes use it: W of the fields, and what extras contribute to the exponents of each value."""

    W: Any  # as ``FieldMap.weights`` gives it
    base: np.ndarray


@dataclass(frozen=True, eq=False)
class PartValues:
    """Monomials Φ (K, R), weights (R,), losses (n,) and derivatives (see ``_kernels.conditional``) of a few rows."""

    Phi: Any  # an array; OnesMonomials for ``OnesMap``
    weights: np.ndarray
    losses: np.ndarray
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True, eq=False)
class SiteSums:
    """S_i (n,), and its derivatives by entry of W and by extra."""

    losses: np.ndarray
    entries: np.ndarray
    extras: np.ndarray


@dataclass(frozen=True, eq=False)
class Sample:
    """Every ``stride``-th row, and all that are ``heavy`` (n_rows,): Chunks where the rows are."""

    stride: int = 1
    heavy: np.ndarray | Chunks | None = None

    @property
    def strata(self) -> list[tuple[int, np.ndarray | Chunks | None]]:
        """Strides, and the rows among which they count."""
        if self.heavy is None:
            return [(self.stride, None)]
        light = self.heavy.then(np.logical_not) if isinstance(self.heavy, Chunks) else ~self.heavy
        return [(1, self.heavy), (self.stride, light)]


class Composite:
    """S_i and its derivatives on given data, without a prior.

    Parameters
    ----------
    samples : Samples or Rows
        On the values of ``parameters.space``.
    parameters : Parameters
        What θ means, in the gauge of the fit.
    loss : Loss
    log : bool
        Σ ln S_i in place of Σ S_i.
    dtype : dtype
        Of the products; float32 for large data by default.
    n_jobs : int or None
        Threads; every core by default. Sums are added in one order, so that nothing depends on it.
    """

    def __init__(
        self,
        samples: Samples | Rows,
        parameters: Parameters,
        loss: Loss,
        log: bool = False,
        dtype: Any = None,
        n_jobs: int | None = None,
    ):
        if isinstance(samples, Samples) and samples.allow_nan:
            raise ValueError("samples may hold missing entries: check them with allow_nan=False, or fill them in.")
        self.rows = Rows(samples) if isinstance(samples, Samples) else samples
        self.parameters, self.loss, self.log, self.n_jobs = parameters, loss, log, n_jobs
        by_ones = OnesMap.serves(parameters, self.rows.ones)
        self.map = OnesMap(parameters) if by_ones else FieldMap(parameters)
        self.losses = SiteLosses(parameters, loss)
        self.outputs = self.losses.outputs
        self.n_features, self.n_params = parameters.space.n_features, parameters.n_params
        flops = 4.0 * self.map.n_fields * self.map.n_monomials * self.rows.n_rows
        self.dtype = np.dtype(dtype or (np.float64 if flops < _SMALL else np.float32))
        self._letters = parameters.space.padded.astype(self.dtype)
        self.stride = self.first_stride(self.n_params)

    def __getstate__(self) -> dict[str, Any]:
        # What workers need for a pass: they have the rows, and the rest is made here.
        needed = ("parameters", "loss", "log", "n_jobs", "map", "losses", "outputs", "n_features", "n_params", "dtype")
        return {name: vars(self)[name] for name in (*needed, "_letters", "stride")}

    def restricted(self, columns: Interactions) -> Composite:
        """The same objective on the same rows with some of the couplings only."""
        mine = self.parameters
        some = Parameters(mine.space, columns, mine.site, mine.frequencies)
        return Composite(self.rows, some, self.loss, self.log, self.dtype, self.n_jobs)

    def first_stride(self, n_determined: float) -> int:
        """The Hessian takes every so many rows, to begin with, if the data determine so many parameters."""
        own = n_determined / self.map.n_fields
        return max(1, self.rows.n_rows // max(int(_ROWS_A_PARAMETER * own), 2000))

    # ------------------------------------------------------------------ parameters

    def to_params(self, entries: np.ndarray, extras: np.ndarray) -> np.ndarray:
        """(P,) from values by entry of W and by extra."""
        out = self.map.gather(entries)
        out[self.outputs.extra_params] = extras
        return out

    def site_params(self, i: int) -> np.ndarray:
        """The parameters that site i's loss depends on: by its entries of W, then its extras."""
        linear = self.map.param[self.map.site_ptr[i] : self.map.site_ptr[i + 1]]
        return np.concatenate([linear, self.outputs.extra_params[self.outputs.extra_site == i]])

    @property
    def is_apart(self) -> bool:
        """Whether no parameter is of two sites, as where every interaction has one modelled variable."""
        return len(self.map.param) + self.outputs.n_extras == self.n_params

    def site_slopes(self, sums: SiteSums, i: int) -> np.ndarray:
        """∂S_i by ``site_params``."""
        linear = sums.entries[self.map.site_ptr[i] : self.map.site_ptr[i + 1]]
        return np.concatenate([linear, sums.extras[self.outputs.extra_site == i]])

    @cached_property
    def entry_site(self) -> np.ndarray:
        """(entries,) the site of each entry of W."""
        return self.parameters.field_site[self.map.column]

    def scale(self, losses: np.ndarray) -> np.ndarray:
        """(n,) derivative of the objective by S_i: 1, or 1/S_i; of given sites nothing depends on it."""
        modelled = ~self.parameters.space.given
        return 1.0 / np.where(modelled, losses, 1.0) if self.log else np.ones(self.n_features)

    def value(self, losses: np.ndarray) -> float:
        """Σ_i S_i, or Σ_i ln S_i, over modelled sites."""
        return float(np.log(losses[~self.parameters.space.given]).sum() if self.log else losses.sum())

    def falls_without_end(self, losses: np.ndarray) -> bool:
        """Whether an ln S_i is lower than any data can tell.

        Where some combination of columns separates the values of site i in the data, every factor exp(−ηG) goes to zero
        along it, and ln S_i to −∞ at a constant rate: nothing but a prior is in its way.
        """
        return self.log and bool(losses[~self.parameters.space.given].min(initial=1.0) < np.exp(-UNBOUNDED))

    @cached_property
    def centring(self) -> Centring:
        """The gauge of centred functions, for preconditioners."""
        return Centring(self.parameters)

    @cached_property
    def own_variance(self) -> np.ndarray:
        """(n_own,) variances of the own functions of all sites in the data."""
        pairs = zip(self.parameters.frequencies, self.parameters.own)
        return np.concatenate([p @ (O - p @ O) ** 2 for p, O in pairs])

    @cached_property
    def column_variance(self) -> np.ndarray:
        """(N,) variances of the columns in the data."""
        return self._over_columns(lambda p, O: p @ (O - p @ O) ** 2)

    @cached_property
    def column_second(self) -> np.ndarray:
        """(N,) ⟨φ_c²⟩ in the data."""
        return self._over_columns(lambda p, O: p @ O**2)

    def _over_columns(self, average: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """(N,) averages of the functions of each site, of which those of a given site are its columns alone."""
        parameters = self.parameters
        tables: list[Any] = list(parameters.space.functions)
        triples = zip(parameters.frequencies, parameters.own, tables)
        return np.concatenate([average(p, O if O.shape[1] else phi)[: phi.shape[1]] for p, O, phi in triples])

    # ------------------------------------------------------------------ passes over the data

    def at(self, theta: np.ndarray) -> Predictor:
        return Predictor(self.map.weights(theta, self.dtype), self.losses.base(theta))

    def parts(self, block: Block) -> Iterator[Block]:
        """Rows cut into parts whose monomials fit in cache, of nearly the same size: a short rest would cost a product
        as much as a whole part."""
        entries = _PART_OF_ONES if isinstance(self.map, OnesMap) else _PART
        size = int(np.clip(entries // max(self.map.n_monomials, self.outputs.n_pairs), 64, 4096))
        codes, w = block
        n_parts = -(-len(w) // size)
        for k in range(n_parts):
            part = slice(len(w) * k // n_parts, len(w) * (k + 1) // n_parts)
            yield codes[part], w[part]

    def over_rows(
        self,
        work: Callable[[Block], Sequence[Any]],
        stride: int = 1,
        offset: int = 0,
        among: np.ndarray | Chunks | None = None,
    ) -> list[Any]:
        """Σ work(part) over the parts of all rows, or of every ``stride``-th one; of those ``among``, if given."""
        return self.over_blocks(work, self.rows.blocks(stride, offset, among))

    def over_blocks(
        self,
        work: Callable[[Block], Sequence[Any]],
        blocks: Iterable[Block] | Chunks,
        last: Callable[[list[Any]], Any] = list,
    ) -> list[Any]:
        """Σ work(part) over the parts of blocks, and what is asked of it, see ``reduce``."""
        cost = self.map.n_fields * self.map.n_monomials // (4 * self.n_features)
        return reduce(lambda block: sum_of(map(work, self.parts(block))), blocks, self.n_jobs, max(1, cost), last=last)

    def over_sample(
        self,
        work: Callable[[Block, int], Sequence[Any]],
        sample: Sample,
        n_bytes: int = 0,
        last: Callable[[list[Any]], Any] = list,
    ) -> list[Any]:
        """Σ work(part, stride) over the rows that are all taken, with stride 1, and every so many of the others.

        ``last`` is asked of the sum of either, where it is made: something that can be added.
        """
        found = []
        for stride, among in sample.strata:
            blocks = self.rows.blocks(stride, 0, among, n_bytes)
            found.append(self.over_blocks(lambda part, k=stride: work(part, k), blocks, last))  # type: ignore[misc]
        return sum_of(found)

    def over_shares(self, work: Callable[[Any], Sequence[Any]], shares: list[list[Any]] | Chunks) -> list[Any]:
        """Σ work(part) over parts that are held, share by share."""
        if isinstance(shares, Chunks):
            return reduce(lambda share: sum_of(map(work, share)), shares)
        return sum_of(in_threads(lambda share: sum_of(map(work, share)), shares, self.n_jobs))

    def monomials(self, part: Block) -> tuple[np.ndarray, Any]:
        """Codes (n, R) and Φ (K, R) of a part."""
        space = self.parameters.space
        if isinstance(part[0], Ones):
            codes = part[0].columns()
            if isinstance(self.map, OnesMap):
                return codes, self.map.of_ones(part[0])
            values = {}
        else:
            values = {i: part[0][:, i] for i in space.lines}
            codes = np.ascontiguousarray(space.only_codes(part[0]).T)
        for i in values:
            codes[i] = 0  # what stands for a line has no meaning, and is there
        X = np.empty((space.n_columns, codes.shape[1]), dtype=self.dtype)
        conditional.columns(codes, space.site, self._letters, X)
        for i, x in values.items():
            X[space.column_ptr[i]] = space.along_line(i, x)
        return codes, self.map.monomials(X)

    def evaluate(self, part: Block, at: Predictor, second: bool) -> PartValues:
        """The losses of one part at θ and their derivatives."""
        codes, Phi = self.monomials(part)
        losses, one, two = self.losses(codes, self.map.fields(at.W, Phi), at.base, part[1], second)
        return PartValues(Phi, part[1].astype(self.dtype), losses, one, two)

    def slopes(self, values: PartValues) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Losses of a part, and their weighted derivatives by W (see ``FieldMap.adjoint``) and by extras.

        ``values.first`` is overwritten.
        """
        values.first[...] *= values.weights
        by_extra = values.first[self.outputs.n_columns :].sum(axis=1, dtype=np.float64)
        return values.losses, self.map.adjoint(values.first[: self.outputs.n_columns], values.Phi), by_extra

    def site_sums(self, losses: np.ndarray, adjoint: np.ndarray, by_extra: np.ndarray) -> SiteSums:
        """From sums of ``slopes``."""
        return SiteSums(losses, self.map.entries(adjoint), by_extra)

    def sums(self, theta: np.ndarray) -> SiteSums:
        """S (n,), and its derivatives: one pass."""
        at = self.at(theta)
        return self.site_sums(*self.over_rows(lambda part: self.slopes(self.evaluate(part, at, second=False))))

    def rows_beyond(self, theta: np.ndarray, limit: float, seen: bool) -> np.ndarray:
        """(n,) the number of the Hessian's rows in which log odds of a site exceed a limit.

        Between any two of its values, or, if ``seen``, of the value that it has against every other.
        """
        at, tables = self.at(theta), self.losses.tables

        def work(part: Block) -> list[np.ndarray]:
            codes, Phi = self.monomials(part)
            return [conditional.rows_beyond(codes, self.map.fields(at.W, Phi), at.base, tables, limit, seen)]

        return self.over_rows(work, self.stride)[0]


def sum_of(found: Iterable[Sequence[Any]]) -> list[Any]:
    """Entry by entry: arrays in float64, lists one after another."""
    total: list[Any] = []
    ours = False  # whether more can be added to the arrays in place
    for each in found:
        if not total:
            total = list(each)
        elif not ours:
            total, ours = [_plus(a, b) for a, b in zip(total, each)], True
        else:
            for a, b in zip(total, each):
                a += b
    return total if ours else [a if isinstance(a, list) else np.array(a, dtype=np.float64) for a in total]


def _plus(a: Any, b: Any) -> Any:
    """The sum of two, apart from either: of single precision without a copy in between."""
    return a + b if isinstance(a, list) else np.asarray(np.add(a, b, dtype=np.float64))
