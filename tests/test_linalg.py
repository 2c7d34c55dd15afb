"""Factorisations and lifted inverses of positive definite matrices."""

from __future__ import annotations

import numpy as np
import pytest

from hbm_learn import linalg


def random_spd(n: int, seed: int = 0, spread: float = 0.0) -> np.ndarray:
    """Positive definite, with units of the variables that differ by e^±spread."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, 2 * n))
    units = np.exp(spread * rng.uniform(-1, 1, n))
    return A @ A.T / n * np.outer(units, units)


@pytest.mark.parametrize("n", [1, 2, 7, 40, 300])
@pytest.mark.parametrize("spread", [0.0, 20.0])
def test_factor_solve_and_inverse(n: int, spread: float) -> None:
    H = random_spd(n, spread=spread)
    L, scale = linalg.factor(H)
    np.testing.assert_allclose(L @ L.T, H * np.outer(scale, scale), atol=1e-13)
    units = np.sqrt(np.diag(H))
    solved = linalg.solve((L, scale), H @ (1.0 / units))
    np.testing.assert_allclose(solved * units, 1.0, rtol=1e-9)
    inverse = linalg.inverse(H)
    np.testing.assert_allclose(inverse * np.outer(units, units), np.linalg.inv(H / np.outer(units, units)), atol=1e-12)
    np.testing.assert_array_equal(inverse, inverse.T)


def test_a_singular_matrix_is_lifted_as_little_as_will_do() -> None:
    H = random_spd(6)
    H[5], H[:, 5] = H[4], H[:, 4]
    H[5, 5] = H[4, 4]
    inverse = linalg.inverse(H)
    assert np.isfinite(inverse).all()
    assert inverse[5, 5] > 1e6 * np.abs(inverse[:4, :4]).max()
    # what H can reach it still solves
    g = H @ np.arange(6.0)
    np.testing.assert_allclose(H @ linalg.solve(linalg.factor(H), g), g, rtol=1e-6)


@pytest.mark.parametrize("floor", [1e-16, 1e-8])
def test_a_parameter_without_curvature_gets_a_finite_inverse_and_leaves_others_alone(floor: float) -> None:
    H = random_spd(5)
    H[2], H[:, 2] = 0.0, 0.0
    inverse = linalg.inverse(H, floor)
    assert inverse[2, 2] == pytest.approx(1.0 / (floor * np.diag(H).max()))
    others = [0, 1, 3, 4]
    np.testing.assert_allclose(inverse[np.ix_(others, others)], np.linalg.inv(H[np.ix_(others, others)]), rtol=1e-10)


def test_spd_inverse() -> None:
    H = random_spd(9)
    inverse, log_det = linalg.spd_inverse(H.copy())
    assert inverse is not None
    np.testing.assert_allclose(inverse, np.linalg.inv(H), rtol=1e-9)
    np.testing.assert_array_equal(inverse, inverse.T)
    assert log_det == pytest.approx(np.linalg.slogdet(H)[1], rel=1e-12)
    H[0, 0] = -1.0
    inverse, log_det = linalg.spd_inverse(H)
    assert inverse is None
    assert np.isnan(log_det)


@pytest.mark.parametrize("n", [1, 5, 8, 37])
def test_symmetric_product(n: int) -> None:
    A, V = random_spd(n), random_spd(n, seed=1)
    np.testing.assert_allclose(linalg.symmetric_product(A @ V, A), A @ V @ A, rtol=1e-10, atol=1e-12)


def test_block_inverses() -> None:
    blocks = np.stack([random_spd(3, seed, spread=5.0) for seed in range(4)])
    for block, inverse in zip(blocks, linalg.block_inverses(blocks, 1e-12)):
        units = np.sqrt(np.diag(block))
        np.testing.assert_allclose((inverse @ block) * units[:, None] / units, np.eye(3), atol=1e-10)
    found = linalg.block_inverses(np.ones((1, 2, 2)), 1e-3)
    np.testing.assert_allclose(np.linalg.eigvalsh(found[0]), [0.5, 1e3])
