"""Points, clusters and nearest contexts are those of the vectors."""

import numpy as np
import pytest

from spacy_elmo.explore import Context, nearest_contexts, word_view
from spacy_elmo.explore.neighbours import unit_vectors
from spacy_elmo.explore.words import clusters, principal_components, typical_words

from .views import bank_contexts, tiny_bilm


@pytest.fixture(scope="module")
def bilm():
    return tiny_bilm()


@pytest.fixture(scope="module")
def contexts():
    return bank_contexts(30)


@pytest.fixture(scope="module")
def view(bilm, contexts):
    return word_view(bilm, contexts, word="bank")


@pytest.mark.parametrize("layer", [1, 2])
def test_points_are_the_two_directions_of_most_variance(bilm, contexts, view, layer):
    unit_ND = unit_vectors(bilm, contexts, layer)
    found = view.data["layers"][layer]
    points_N2 = np.array(found["points"]).reshape(-1, 2)
    value_D, vector_DD = np.linalg.eigh(np.cov(unit_ND.T, bias=True))
    expected_N2 = (unit_ND - unit_ND.mean(0)) @ vector_DD[:, [-1, -2]]
    sign_2 = np.sign((points_N2 * expected_N2).sum(0))
    assert np.allclose(points_N2, expected_N2 * sign_2, atol=2e-4)
    shares_2 = value_D[[-1, -2]] / value_D.sum()
    assert np.allclose(found["variance"], shares_2, atol=1e-3)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_nearest_are_those_of_the_command_neighbours(bilm, contexts, view, layer):
    found = view.data["layers"][layer]
    for i in (0, 7, 29):
        expected = nearest_contexts(bilm, [contexts[i]], contexts, 10, layer)
        near = zip(found["near"][i], found["cosine"][i])
        for (n, cosine), neighbour in zip(near, expected, strict=True):
            assert cosine / 1000 == pytest.approx(neighbour.cosine, abs=1e-3)
            assert layer == 0 or contexts[n] == neighbour.nearest


def test_token_layer_has_one_point_for_each_spelling(contexts, view):
    layer = view.data["layers"][0]
    points = list(zip(layer["points"][::2], layer["points"][1::2]))
    spelled = [context.sentence[context.position] for context in contexts]
    assert len(set(zip(points, spelled))) == len(set(points)) == 2
    assert len(set(zip(layer["cluster"], spelled))) == 2


def test_occurrences_of_one_sentence_are_not_near_each_other(bilm):
    tokens = ["bank", "and", "bank"]
    view = word_view(bilm, [Context(tokens, 0), Context(tokens, 2)], word="bank")
    assert view.data["layers"][1]["near"] == [[-1], [-1]]


def test_one_context_is_a_page_too(bilm):
    view = word_view(bilm, [Context(["bank"], 0)], word="bank")
    for layer in view.data["layers"]:
        assert layer["points"] == [0, 0] and layer["near"] == [[]]
        assert layer["variance"] == [0, 0] and layer["cluster"] == [0]
    with pytest.raises(ValueError, match="EL084"):
        word_view(bilm, [], word="bank")


def test_only_the_neighbourhood_of_a_word_is_read_and_shown(bilm):
    tokens = [f"w{i}" for i in range(100_000)]
    view = word_view(bilm, [Context(tokens, 50_000)], word="w50000")
    (shown,), (at,) = view.data["contexts"], view.data["positions"]
    assert shown[at] == "w50000" and len(shown) < 50
    assert shown[0] == shown[-1] == "…"


def test_clusters_are_found():
    rng = np.random.default_rng(0)
    true_N = rng.choice(4, size=200, p=[0.4, 0.3, 0.2, 0.1])
    means = np.array([[0, 0, 9], [9, 0, 0], [0, 9, 0], [9, 9, 9]])
    found_N = clusters(means[true_N] + rng.normal(size=(200, 3)) * 0.3)
    assert (found_N == true_N).all()  # the largest is 0
    assert (clusters(np.zeros((5, 2))) == 0).all()


def test_components_of_equal_vectors_are_zero():
    points, shares = principal_components(np.full((4, 6), 1e-9), 3)
    assert not points.any() and not shares.any()


def test_typical_words_tell_clusters_apart():
    contexts = [Context(["the", "river", "bank", "."], 2)] * 3
    contexts += [Context(["the", "bank", "account", "."], 1)] * 3
    cluster_N = np.array([0, 0, 0, 1, 1, 1])
    assert typical_words(contexts, cluster_N) == [["river"], ["account"]]
