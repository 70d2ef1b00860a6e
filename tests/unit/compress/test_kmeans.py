import numpy as np
import pytest

from lite_nlp.compress.quantize.kmeans import assign, fit_codebook, squared_error
from lite_nlp.core.errors import ModelError


def test_fewer_values_than_centroids_are_kept_exactly() -> None:
    values = np.array([[3.0, -1.0], [3.0, 0.5]], dtype=np.float32)
    assert fit_codebook(values, 10).tolist() == [-1.0, 0.5, 3.0]


def test_one_centroid_is_the_mean() -> None:
    assert fit_codebook(np.array([1.0, 2.0, 6.0]), 1).tolist() == [3.0]


def test_two_clusters() -> None:
    assert fit_codebook(np.array([0.0, 0.2, 9.8, 10.0]), 2, keep_zero=False).tolist() == pytest.approx([0.1, 9.9])


def test_zero_is_kept_for_pruned_weights() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=5000).astype(np.float32)
    values[::3] = 0
    codebook = fit_codebook(values, 16)
    assert len(codebook) == 16
    assert 0.0 in codebook
    assert np.all(codebook[assign(values, codebook)][::3] == 0)
    assert 0.0 not in fit_codebook(values, 16, keep_zero=False)


def test_a_pruned_out_tensor_has_one_centroid() -> None:
    assert fit_codebook(np.zeros((4, 4)), 256).tolist() == [0.0]


def test_weights_pull_centroids() -> None:
    values, weights = np.array([0.0, 1.0, 10.0]), np.array([1.0, 3.0, 1.0])
    assert fit_codebook(values, 2, weights=weights, keep_zero=False).tolist() == pytest.approx([0.75, 10.0])


def test_weights_equal_repetitions() -> None:
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=300), rng.integers(1, 5, 300)
    weighted = fit_codebook(values, 12, weights=weights)
    assert weighted == pytest.approx(fit_codebook(np.repeat(values, weights), 12))


def test_values_without_importance_do_not_matter() -> None:
    values, weights = np.array([1.0, 2.0, 50.0, 60.0]), np.array([1.0, 1.0, 0.0, 0.0])
    assert fit_codebook(values, 2, weights=weights)[0] == pytest.approx(1.0, abs=0.6)


def test_centroids_are_the_means_of_their_clusters() -> None:
    values = np.random.default_rng(2).standard_t(4, 20_000)
    codebook = fit_codebook(values, 64)
    assignments = assign(values, codebook)
    means = np.array([values[assignments == index].mean() for index in range(64)])
    assert codebook == pytest.approx(means, abs=1e-5)


def test_more_centroids_come_nearer() -> None:
    values = np.random.default_rng(3).laplace(size=30_000)
    errors = [squared_error(values, fit_codebook(values, size)) for size in (4, 16, 64, 256)]
    # Doubling the resolution quarters the error of a fine quantizer (Panter and Dite 1951).
    assert errors[1] < errors[0] / 6
    assert errors[2] < errors[1] / 10
    assert errors[3] < errors[2] / 10


def test_it_is_deterministic() -> None:
    values = np.random.default_rng(4).normal(size=4000)
    assert np.array_equal(fit_codebook(values, 32), fit_codebook(values.copy(), 32))


def test_assignment_is_to_the_nearest() -> None:
    codebook = np.array([-1.0, 0.0, 4.0], dtype=np.float32)
    assert assign(np.array([[-9.0, -0.4], [2.1, 1.9]]), codebook).tolist() == [[0, 1], [2, 1]]
    assert assign(np.array([-0.5, 2.0]), codebook).tolist() == [0, 1]


@pytest.mark.parametrize("values", [[], [1.0, np.nan], [np.inf]])
def test_values_that_cannot_be_clustered(values: list[float]) -> None:
    with pytest.raises(ModelError, match="k-means: expected finite weights, found"):
        fit_codebook(np.array(values), 4)


@pytest.mark.parametrize("size", [0, 1])
def test_too_few_centroids(size: int) -> None:
    with pytest.raises(ValueError, match=f"num_centroids: expected at least 2, found {size}"):
        fit_codebook(np.array([0.0, 1.0]), size)


@pytest.mark.parametrize("weights", [[1.0], [-1.0, 1.0], [0.0, 0.0]])
def test_impossible_weights(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights: expected one for each value"):
        fit_codebook(np.array([1.0, 2.0]), 2, weights=np.array(weights))
