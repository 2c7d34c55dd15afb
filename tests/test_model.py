import numpy as np
import pytest
from oracle import ALPHABETS, all_states, distribution, energy, random_model

from hbm_learn import BoltzmannMachine, Interval
from hbm_learn._kernels import polynomial

ORDERS = [1, 2, 3, 4, 5]


@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
@pytest.mark.parametrize("order", ORDERS)
def test_energies_and_fields_follow_the_definition(order, alphabet):
    model = random_model(6, order, alphabet, 1.5, seed=order)
    rng = np.random.default_rng(1)
    X = rng.choice(alphabet, size=(20, 6))
    expected = [energy(model, x) for x in X.astype(float)]
    np.testing.assert_allclose(model.energy(X), expected, rtol=1e-12, atol=1e-12)

    # H changes by −field·Δx + d·Δ(x²)/2 when one variable changes.
    fields = model.local_fields(X)
    for i in range(6):
        Y = X.copy()
        Y[:, i] = rng.choice(alphabet, size=20)
        change = -fields[:, i] * (Y[:, i] - X[:, i]) + 0.5 * model.d[i] * (Y[:, i] ** 2 - X[:, i] ** 2)
        np.testing.assert_allclose(model.energy(Y) - model.energy(X), change, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_of_the_coupling_polynomial(order):
    model = random_model(6, order, (-1, 1), 1.5, seed=order)
    m = np.random.default_rng(2).uniform(-0.9, 0.9, 6)
    eps, unit = 1e-5, np.eye(6)

    def slope(f):
        return np.array([(f(m + eps * u) - f(m - eps * u)) / (2 * eps) for u in unit])

    np.testing.assert_allclose(model.F(m), slope(model.coupling_energy), atol=1e-9)
    np.testing.assert_allclose(model.A(m), slope(model.F), atol=1e-9)
    np.testing.assert_allclose(model.T(m), slope(model.A), atol=1e-9)
    chi = np.random.default_rng(3).normal(size=(6, 6))
    contracted = polynomial.third_contract(m, *model._kernel_args, chi)
    np.testing.assert_allclose(contracted, np.einsum("klp,ki,li->pi", model.T(m), chi, chi), atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("source", "target"),
    [((-1, 1), (0, 1)), ((0, 1), (-1, 1)), ((-1, 0, 1), (0, 1, 2)), ((0, 1, 2, 3), (-3, -1, 1, 3)), ((-1, 1), (-2, 2))],
    ids=str,
)
def test_with_alphabet_is_the_same_distribution(order, source, target):
    model = random_model(5, order, source, 1.5, seed=10 + order)
    other = model.with_alphabet(target)
    _, p, log_z = distribution(model)
    _, q, other_log_z = distribution(other)
    np.testing.assert_allclose(q, p, rtol=1e-10)
    offset = energy(model, all_states(model)[0]) - energy(other, all_states(other)[0])
    assert other_log_z == pytest.approx(log_z + offset, abs=1e-10)
    back = other.with_alphabet(source)
    np.testing.assert_allclose(back.h, model.h, atol=1e-10)
    np.testing.assert_allclose(back.d, model.d, atol=1e-10)
    np.testing.assert_allclose(back.weights, model.weights, atol=1e-10)


def test_with_alphabet_closes_the_interaction_set_only_when_it_must():
    model = BoltzmannMachine(np.zeros(4), {(0, 1, 2): 1.0})
    assert model.with_alphabet((-2, 2)).couplings() == {(0, 1, 2): pytest.approx(1 / 8)}
    closed = model.with_alphabet((0, 1))
    assert closed.interactions == [(0, 1), (0, 2), (1, 2), (0, 1, 2)]
    assert closed.couplings()[(0, 1, 2)] == pytest.approx(8)


def test_with_alphabet_interval():
    model = BoltzmannMachine([0.3, -0.2], {(0, 1): 0.5}, 0.7, Interval(-1, 1))
    other = model.with_alphabet(Interval(0, 1))
    X = np.random.default_rng(0).uniform(-1, 1, (10, 2))
    difference = model.energy(X) - other.energy((X + 1) / 2)
    np.testing.assert_allclose(difference, difference[0], atol=1e-12)


@pytest.mark.parametrize("alphabet", [*ALPHABETS.values(), Interval(-1, 2), "real"], ids=str)
def test_a_saved_model_is_equal(alphabet, tmp_path):
    model = random_model(5, 2 if alphabet == "real" else 4, alphabet, 1.0, seed=1)
    for name in ("model.npz", "model.with.other.name"):
        model.save(tmp_path / name)
        loaded = BoltzmannMachine.load(tmp_path / name)
        assert loaded == model
        assert loaded.alphabet.dtype == model.alphabet.dtype


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    random_model(5, 3, (-1, 1), 1.0, seed=1).save(path)
    good = path.read_bytes()
    for damaged in (good[: len(good) // 2], b"not an archive", b"", good[:200] + b"\x00" * 50 + good[250:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"model\.npz is damaged"):
            BoltzmannMachine.load(path)
    np.savez(path, a=np.arange(3))
    with pytest.raises(ValueError, match="not a model saved by hbm_learn"):
        BoltzmannMachine.load(path)
    np.save(tmp_path / "array.npy", np.arange(3))
    with pytest.raises(ValueError, match="not a model saved by hbm_learn"):
        BoltzmannMachine.load(tmp_path / "array.npy")
    with pytest.raises(FileNotFoundError):
        BoltzmannMachine.load(tmp_path / "absent.npz")


def test_inconsistent_contents_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    random_model(4, 2, (-1, 1), 1.0, seed=1).save(path)
    with np.load(path) as archive:
        content = dict(archive)
    for name, value in [("weights", content["weights"][:-1]), ("members", content["members"] + 7), ("version", 99)]:
        np.savez(path, **{**content, name: value})
        with pytest.raises(ValueError, match=r"model\.npz"):
            BoltzmannMachine.load(path)


def test_matrix_and_dict_are_the_same_model():
    J = np.array([[0, 0.3, 0], [0.3, 0, -0.2], [0, -0.2, 0]])
    by_matrix = BoltzmannMachine(np.zeros(3), J)
    by_dict = BoltzmannMachine(np.zeros(3), {(1, 0): 0.3, (1, 2): -0.2})
    assert by_matrix == by_dict
    assert np.array_equal(by_matrix.J, J)
    assert by_matrix.couplings() == {(0, 1): 0.3, (1, 2): -0.2}


def test_tensor_is_symmetric():
    model = BoltzmannMachine(np.zeros(4), {(0, 1): 0.5, (0, 1, 3): 2.0, (1, 2, 3): -1.0})
    T = model.tensor(3)
    assert T[3, 0, 1] == T[1, 0, 3] == 2.0
    assert np.array_equal(T, T.transpose(2, 0, 1))
    assert np.count_nonzero(T) == 12
    assert model.tensor(4).shape == (4,) * 4
    assert not model.tensor(4).any()


def test_model_is_immutable():
    h = np.zeros(2)
    model = BoltzmannMachine(h, {(0, 1): 0.5})
    h[0] = 1.0
    assert model.h[0] == 0.0
    for array in (model.h, model.d, model.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3.0
    with pytest.raises(AttributeError):
        model.h = h


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], {}), "h has shape"),
        (([0, np.nan], {}), r"h\[1\] = nan"),
        (([0, "a"], {}), "h must be a vector"),
        (([0, 0], {(0, 2): 1.0}), "2 is not a known feature"),
        (([0, 0], {(0, 1): np.inf}), r"couplings\[\(0, 1\)\] = inf"),
        (([0, 0], {(0, 1): 1.0, (1, 0): 1.0}), "given twice"),
        (([0, 0], np.zeros((3, 3))), "expected \\(2, 2\\)"),
        (([0, 0], np.eye(2)), "no self-interactions"),
        (([0, 0], np.array([[0, 1.0], [2.0, 0]])), "symmetric"),
        (([0, 0], {}, [0, 0, 0]), "d has shape"),
        (([0, 0, 0], {(0, 1, 2): 1.0}, 1.0, "real"), "pair couplings only"),
    ],
)
def test_bad_models_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BoltzmannMachine(*arguments)


def test_bad_rows_are_refused():
    model = BoltzmannMachine([0, 0], {(0, 1): 1.0})
    for X in (np.zeros(2), np.zeros((3, 3))):
        with pytest.raises(ValueError, match=r"expected \(n_samples, 2\)"):
            model.energy(X)
