"""Pipelines that share a component, and copies of them, which have all of their own."""

import copy
import gc
import io
import pickle
import warnings

import numpy as np
import pytest
import spacy
import srsly

from ..pipelines import TAGGER, add_elmo, annotations, examples, pipeline, trained

TEXT = "She hates London now"


def by_joblib(x):
    joblib, file = pytest.importorskip("joblib"), io.BytesIO()
    joblib.dump(x, file)
    file.seek(0)
    return joblib.load(file)


WAYS = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "cloudpickle": lambda x: srsly.pickle_loads(srsly.pickle_dumps(x)),
    "joblib": by_joblib,
    "deepcopy": copy.deepcopy,
}


SHARED = [
    "both",
    *(pytest.param(x, marks=pytest.mark.slow) for x in ("elmo", "tagger")),
]


@pytest.fixture(params=WAYS)
def copied(request):
    return WAYS[request.param]


def sourced(source, shared, **settings):
    """Another pipeline with a component of the first, or with both."""
    other = spacy.blank("xx")
    if shared == "tagger":
        add_elmo(other, seed=2, **settings)
    if shared in ("elmo", "both"):
        other.add_pipe("elmo", source=source)
    if shared == "elmo":
        other.add_pipe("tagger", config=TAGGER)
        other.get_pipe("tagger").initialize(lambda: examples(other), nlp=other)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a mix on another biLM
            other.add_pipe("tagger", source=source)
    return other


def heard(nlp):
    """What the listener of a tagger makes of a Doc."""
    doc = nlp.get_pipe("elmo")(nlp.make_doc(TEXT))
    return nlp.get_pipe("tagger").model.get_ref("tok2vec").predict([doc])[0]


def close(a, b):
    return np.allclose(a, b, atol=1e-6)


def use(nlp, other, tmp_path):
    nlp(TEXT), other(TEXT)


def save(nlp, other, tmp_path):
    nlp.to_disk(tmp_path / "one")
    other.to_disk(tmp_path / "other")


def train(nlp, other, tmp_path):
    nlp.update(examples(nlp))


def train_other(nlp, other, tmp_path):
    other.update(examples(other))


def nothing(nlp, other, tmp_path):
    pass


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize(
    "before",
    [
        nothing,
        train,
        *(pytest.param(x, marks=pytest.mark.slow) for x in (use, save, train_other)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*ELW20")
def test_each_alone_and_both(copied, shared, before, tmp_path):
    source = trained(20)
    other = sourced(source, shared)
    before(source, other, tmp_path)
    expected = [heard(source), heard(other)]
    found = [annotations(source), annotations(other)]
    copies = [copied(source), copied(other)]
    together = copied((source, other))
    del source, other
    gc.collect()
    for pair in (copies, together):
        assert all(map(close, map(heard, pair), expected))
        assert [annotations(nlp) for nlp in pair] == found


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.filterwarnings("ignore:.*ELW20")
def test_a_copy_learns_alone(copied, shared):
    """Its listeners hear its own biLM, which learns; the others stand still."""
    settings = {"frozen": False, "learn_rate_factor": 50.0}
    source = trained(2, **settings)
    source.select_pipes(enable=["elmo", "tagger"])
    other = sourced(source, shared, **settings)
    expected = [heard(source), heard(other)]
    for n, nlp in enumerate((source, other)):
        mine = copied(nlp)
        batch = examples(mine)
        for _ in range(2):
            mine.update(batch, sgd=mine.create_optimizer())
        assert not close(heard(mine), expected[n])
        weights = mine.get_pipe("elmo").bilm.state_dict()
        assert not all(
            np.array_equal(array, weights[name])
            for name, array in nlp.get_pipe("elmo").bilm.state_dict().items()
        )
        assert close(heard(nlp), expected[n])


@pytest.mark.filterwarnings("ignore:.*ELW20")
def test_a_copy_of_a_copy_and_of_what_is_saved(copied, tmp_path):
    source = trained(20)
    other = sourced(source, "elmo")
    expected = heard(source)
    twice = copied(copied(source))
    twice.to_disk(tmp_path)
    del source, other
    gc.collect()
    assert close(heard(twice), expected)
    assert close(heard(copied(spacy.load(tmp_path))), expected)


def test_several_processes_after_sourcing():
    source = trained(20)
    sourced(source, "elmo")
    expected = [annotations(source)] * 4
    docs = source.pipe(["I like Paris now"] * 4, n_process=2, batch_size=2)
    found = [[(token.tag_, token.ent_type_) for token in doc] for doc in docs]
    assert found == expected


def test_a_component_is_not_copied_with_the_pipelines_that_listen_to_it():
    """Nor those of others with a pipeline: only what they mix with."""
    source = pipeline()
    source.initialize(lambda: examples(source))
    other = sourced(source, "elmo")
    alone = len(pickle.dumps(source))
    other.get_pipe("tagger").model.attrs["large"] = "x" * 1_000_000
    assert len(pickle.dumps(source)) < alone + 10_000
    assert len(pickle.dumps(source.get_pipe("elmo"))) < alone
