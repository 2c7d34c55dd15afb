import numpy as np
import pytest
from scipy.integrate import quad

from hbm_learn import Alphabet, Interval

FINITE = [(-1, 1), (0, 1), (-1, 0, 1), (0, 1, 2, 3), (-2, -1, 0, 1, 2), (0.5, 1.7, 4.0)]
EVERY = [*FINITE, Interval(-1, 1), Interval(-0.5, 3.0)]


def grid(alphabet, size):
    """All combinations of small and moderate (b, c), both signs."""
    b, c = (a.ravel() for a in np.meshgrid(np.linspace(-size, size, 9), np.linspace(-size, size, 9)))
    return b, np.zeros_like(c) if alphabet.is_binary else c


@pytest.mark.parametrize("spec", FINITE, ids=str)
def test_site_moments_equal_direct_sums(spec):
    alphabet = Alphabet(spec)
    b, c = grid(alphabet, 2.0)
    site = alphabet.site_moments(b, c)
    x = np.array(spec, dtype=float)
    q = np.exp(b[:, None] * x - c[:, None] * x**2 / 2)
    np.testing.assert_allclose(site.log_z, np.log(q.sum(axis=1)), rtol=1e-13, atol=1e-13)
    q /= q.sum(axis=1, keepdims=True)
    for k, moment in enumerate(site.raw, start=1):
        np.testing.assert_allclose(moment, q @ x**k, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("spec", [Interval(-1, 1), Interval(-0.5, 3.0)], ids=str)
@pytest.mark.parametrize(("b", "c"), [(0.0, 0.0), (1.5, 2.0), (-3.0, 5.0), (0.3, -4.0), (6.0, -2.0), (-8.0, 1.0)])
def test_interval_moments_equal_adaptive_quadrature(spec, b, c):
    def integral(f):
        return quad(lambda x: f(x) * np.exp(b * x - c * x**2 / 2), spec.low, spec.high, epsabs=1e-13, epsrel=1e-13)[0]

    site = Alphabet(spec).site_moments(np.array([b]), np.array([c]))
    z = integral(lambda x: 1.0)
    assert site.log_z[0] == pytest.approx(np.log(z), abs=1e-12)
    for k, moment in enumerate(site.raw, start=1):
        assert moment[0] == pytest.approx(integral(lambda x: x**k) / z, abs=1e-11)  # noqa: B023


@pytest.mark.parametrize("spec", EVERY, ids=str)
def test_site_moments_do_not_overflow(spec):
    alphabet = Alphabet(spec)
    b, c = (a.ravel() for a in np.meshgrid([-1e4, -10, 0, 10, 1e4], [-1e4, -10, 0, 10, 1e4]))
    site = alphabet.site_moments(b, c)
    for field in (site.log_z, site.m, site.V, site.mu3, site.mu4):
        assert np.isfinite(field).all()
    low, high = alphabet.bounds
    assert (site.m >= low).all()
    assert (site.m <= high).all()
    assert (site.V >= 0).all()


def test_interval_edge_asymptotics():
    """exp(bx) on [−1, 1] with b → ∞ is an exponential of rate b at the edge: m = 1 − 1/b, V = 1/b²."""
    site = Alphabet(Interval(-1, 1)).site_moments(np.array([1e4]), np.array([0.0]))
    assert site.m[0] == pytest.approx(1 - 1e-4, abs=1e-14)
    assert site.V[0] == pytest.approx(1e-8, rel=1e-10)


@pytest.mark.parametrize("b", [5.0, 30.0, 300.0])
def test_frozen_site_keeps_its_variance(b):
    """V = sech²b, far below what v − m² could resolve."""
    site = Alphabet((-1, 1)).site_moments(np.array([b]))
    assert site.V[0] == pytest.approx(1 / np.cosh(b) ** 2, rel=1e-12)


@pytest.mark.parametrize("spec", EVERY, ids=str)
def test_central_moments_are_the_derivatives(spec):
    """The derivatives that the solvers' Jacobians use."""
    alphabet = Alphabet(spec)
    b, c = grid(alphabet, 1.5)
    site, eps = alphabet.site_moments(b, c), 1e-5

    def slope(field, db, dc):
        plus = alphabet.site_moments(b + eps * db, c + eps * dc)
        minus = alphabet.site_moments(b - eps * db, c - eps * dc)
        return (getattr(plus, field) - getattr(minus, field)) / (2 * eps)

    m, V, mu3, mu4 = site.m, site.V, site.mu3, site.mu4
    expected = {
        ("log_z", 1, 0): m,
        ("log_z", 0, 1): -0.5 * site.v,
        ("m", 1, 0): V,
        ("V", 1, 0): mu3,
        ("m", 0, 1): -0.5 * (mu3 + 2 * m * V),
        ("V", 0, 1): -0.5 * (mu4 - V**2 + 2 * m * mu3),
    }
    for (field, db, dc), value in expected.items():
        np.testing.assert_allclose(slope(field, db, dc), value, rtol=1e-6, atol=1e-7, err_msg=f"{field} {db} {dc}")


@pytest.mark.parametrize("spec", [*EVERY, "real"], ids=str)
def test_site_parameters_invert_site_moments(spec):
    alphabet = Alphabet(spec)
    b, c = grid(alphabet, 1.5)
    if spec == "real":
        c = c + 2.0
    site = alphabet.site_moments(b, c)
    again = alphabet.site_moments(*alphabet.site_parameters(site.m, site.v))
    scale = max(abs(alphabet.site_moments(b, c).m).max(), 1.0)
    np.testing.assert_allclose(again.m, site.m, rtol=0, atol=2e-12 * scale)
    np.testing.assert_allclose(again.v, site.v, rtol=0, atol=2e-12 * scale**2 * 4)


@pytest.mark.parametrize("spec", [(-1, 0, 1), (0, 1, 2, 3), Interval(-1, 1)], ids=str)
def test_site_parameters_near_the_boundary(spec):
    """Two sites of nearly frozen moments are still inverted to the tolerance."""
    alphabet = Alphabet(spec)
    site = alphabet.site_moments(np.array([9.0, -7.0, 0.5]), np.array([1.0, 2.0, -1.5]))
    again = alphabet.site_moments(*alphabet.site_parameters(site.m, site.v))
    np.testing.assert_allclose(again.m, site.m, atol=1e-11)
    np.testing.assert_allclose(again.v, site.v, atol=1e-11)


@pytest.mark.parametrize(
    ("spec", "m", "v", "what"),
    [
        ((-1, 1), 1.0, None, "mean 1"),
        ((0, 1), -0.2, None, "mean -0.2"),
        ((-1, 0, 1), 0.5, 0.5, "second moment 0.5"),
        ((-1, 0, 1), 0.0, 1.0, "second moment 1"),
        ((0, 1, 2, 3), 1.5, 2.5, "second moment 2.5"),
        (Interval(-1, 1), 0.5, 0.25, "second moment 0.25"),
        ("real", 1.0, 1.0, "second moment 1"),
    ],
)
def test_unattainable_moments_are_refused_by_name(spec, m, v, what):
    values = None if v is None else np.array([1.0 if spec == "real" else 0.6, v])
    means = np.array([0.3 if spec != (0, 1, 2, 3) else 0.5, m])
    with pytest.raises(ValueError, match=f"variable second: .*{what}"):
        Alphabet(spec).site_parameters(means, values, names=["first", "second"])


def test_more_than_two_values_need_second_moments():
    with pytest.raises(ValueError, match="second moments v"):
        Alphabet((-1, 0, 1)).site_parameters(np.array([0.1]))


def test_real_line_needs_positive_c():
    with pytest.raises(ValueError, match="c > 0"):
        Alphabet("real").site_moments(np.array([0.0, 1.0]), np.array([1.0, -1.0]))


@pytest.mark.parametrize(
    "bad", [(1,), (1, 1), (0, np.inf), (0, np.nan), ("a", "b"), "spins", 3, [[0, 1]], None], ids=repr
)
def test_bad_alphabets_are_refused(bad):
    with pytest.raises(ValueError, match="alphabet"):
        Alphabet(bad)


@pytest.mark.parametrize("ends", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1)])
def test_bad_intervals_are_refused(ends):
    with pytest.raises(ValueError, match="Interval"):
        Interval(*ends)


def test_values_are_sorted_and_keep_their_dtype():
    assert Alphabet((1, -1)).values.tolist() == [-1, 1]
    assert Alphabet(np.array([0, 1], dtype=np.int8)).dtype == np.int8
    assert Alphabet([False, True]).dtype.kind == "i"
    assert Alphabet((0, 0.5)).dtype == np.float64


def test_affine_to():
    s, t = Alphabet((0, 1)).affine_to(Alphabet((-1, 1)))
    assert (s, t) == (0.5, 0.5)
    assert Alphabet(Interval(0, 4)).affine_to(Alphabet(Interval(-1, 1))) == (2.0, 2.0)
    with pytest.raises(ValueError, match="affine"):
        Alphabet((-1, 0, 1)).affine_to(Alphabet((0, 1, 3)))
    with pytest.raises(ValueError, match="affine"):
        Alphabet((-1, 1)).affine_to(Alphabet("real"))


def test_equality_and_hash():
    assert Alphabet((0, 1)) == Alphabet([1.0, 0.0])
    assert hash(Alphabet((0, 1))) == hash(Alphabet([1.0, 0.0]))
    assert Alphabet((0, 1)) != Alphabet((0, 2))
    assert Alphabet(Interval(0, 1)) != Alphabet((0, 1))
