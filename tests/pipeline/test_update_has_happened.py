"""What `nlp.update` has returned from has happened, whoever looks at the biLM first.

The reference is an update in two steps, as `spacy train` makes it: all gradients, and
then the steps of all components.
"""

import copy
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
import spacy
from thinc.api import Adam, Optimizer

from spacy_elmo.pipeline.encoder import shim_of

from ..pipelines import annotations, examples, pipeline

TEXT = "She saw London now"
# Components that an update leaves out, and components that annotate its Docs.
UPDATES = {
    "all": {},
    "without the last": {"exclude": ["ner"]},
    "without the first": {"exclude": ["tagger"]},
    "without any that listens": {"exclude": ["tagger", "ner"]},
    "elmo annotates": {"annotates": ["elmo"]},
    "all annotate": {"annotates": ["elmo", "tagger", "ner"]},
    "annotates, without the last": {"exclude": ["ner"], "annotates": ["tagger"]},
}


@pytest.fixture(params=UPDATES)
def options(request):
    return UPDATES[request.param]


def begin(factor=20.0):
    spacy.util.fix_random_seed(0)
    nlp = pipeline(frozen=False, seed=3, learn_rate_factor=factor)
    batch = examples(nlp)
    return nlp, batch, nlp.initialize(lambda: batch)


def update(nlp, batch, optimizer, options):
    nlp.update(batch, sgd=optimizer, drop=0.1, **options)


def in_two_steps(nlp, batch, optimizer, options):
    nlp.update(batch, sgd=False, drop=0.1, **options)
    for name, pipe in nlp.pipeline:
        if name not in options.get("exclude", ()):
            pipe.finish_update(optimizer)


def after(make, options, n=4):
    nlp, batch, optimizer = begin()
    for _ in range(n):
        make(nlp, batch, optimizer, options)
    return nlp, batch, optimizer


def tensor(nlp):
    return nlp(TEXT).tensor


def listener(nlp):
    docs = [nlp.get_pipe("elmo")(nlp.make_doc(TEXT))]
    return nlp.get_pipe("tagger").model.get_ref("tok2vec").predict(docs)[0]


def listener_alone(nlp):
    """Of Docs that elmo has not read."""
    docs = [nlp.make_doc(TEXT)]
    return nlp.get_pipe("tagger").model.get_ref("tok2vec").predict(docs)[0]


def from_disk(nlp, folder):
    nlp.to_disk(folder)
    return spacy.load(folder)


def from_bytes(nlp, folder):
    return spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes())


def from_component(nlp, folder):
    elmo = pipeline().get_pipe("elmo")
    return elmo.from_bytes(nlp.get_pipe("elmo").to_bytes())


LOOKS = {
    "Doc": lambda nlp, folder: tensor(nlp),
    "pipe": lambda nlp, folder: next(nlp.pipe([TEXT])).tensor,
    "layers": lambda nlp, folder: nlp(TEXT)._.elmo.layers,
    "listener": lambda nlp, folder: listener(nlp),
    "listener alone": lambda nlp, folder: listener_alone(nlp),
    "annotations": lambda nlp, folder: annotations(nlp, TEXT),
    "evaluate": lambda nlp, folder: str(nlp.evaluate(examples(nlp))["tag_acc"]),
    "bilm": lambda nlp, folder: nlp.get_pipe("elmo").bilm.encode([["a"]])[0],
    "fingerprint": lambda nlp, folder: nlp.get_pipe("elmo").fingerprint(),
    "to_disk": lambda nlp, folder: tensor(from_disk(nlp, folder)),
    "to_bytes": lambda nlp, folder: tensor(from_bytes(nlp, folder)),
    "component": lambda nlp, folder: from_component(nlp, folder).fingerprint(),
    "pickle": lambda nlp, folder: tensor(pickle.loads(pickle.dumps(nlp))),
    "copy": lambda nlp, folder: tensor(copy.deepcopy(nlp)),
}


# Every way to look after an update that nothing says the end of, and one after each.
PAIRS = [(look, "without the last") for look in LOOKS]
PAIRS += [
    pytest.param("Doc", options, marks=pytest.mark.slow)
    for options in UPDATES
    if options != "without the last"
]


@pytest.mark.parametrize(("look", "options"), PAIRS)
def test_who_looks_sees_the_last_update(look, options, tmp_path):
    options = UPDATES[options]
    nlp, *_ = after(update, options)
    expected, *_ = after(in_two_steps, options)
    found = LOOKS[look](nlp, tmp_path / "found")
    assert np.array_equal(found, LOOKS[look](expected, tmp_path / "expected"))


def test_weights_that_stay_when_it_is_initialised_have_the_last_update():
    found = []
    for make in (update, in_two_steps):
        nlp, *_ = after(make, UPDATES["without the last"])
        elmo = nlp.get_pipe("elmo")
        elmo.initialize(list)
        found.append(elmo.fingerprint())
    assert found[0] == found[1]


@pytest.mark.parametrize(("look", "options"), PAIRS)
@pytest.mark.slow
def test_looking_changes_nothing(look, options, tmp_path):
    """Neither what is seen next, nor what is learned."""
    options = UPDATES[options]
    nlp, batch, optimizer = begin()
    expected, *rest = begin()
    for number in range(4):
        spacy.util.fix_random_seed(number)
        update(nlp, batch, optimizer, options)
        before = tensor(nlp)
        LOOKS[look](nlp, tmp_path / str(number))
        assert np.array_equal(tensor(nlp), before)
        spacy.util.fix_random_seed(number)
        update(expected, *rest, options)
    assert np.array_equal(tensor(nlp), tensor(expected))


def test_averages(options):
    """They are of the last update too, and its weights are there again afterwards."""
    found = []
    for make in (update, in_two_steps):
        nlp, batch, _ = begin(factor=1.0)
        optimizer = Adam(0.01, use_averages=True)
        for _ in range(4):
            make(nlp, batch, optimizer, options)
        with nlp.use_params(optimizer.averages):
            found.append(tensor(nlp))
        found.append(tensor(nlp))
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[3])
    if len(options.get("exclude", ())) < 2:
        assert not np.array_equal(found[0], found[1])


def test_scores_before_saving_are_those_after_loading(options, tmp_path):
    nlp, *_ = after(update, options, n=6)
    before = nlp.evaluate(examples(nlp))
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path).evaluate(examples(nlp))
    for scores in (before, loaded):
        scores.pop("speed")
    assert before == loaded


def test_the_weights_of_an_update_that_all_listeners_have_finished(options):
    """They are there at once, also for who has kept the module."""
    expected, *_ = after(in_two_steps, options)
    nlp, batch, optimizer = begin()
    bilm = shim_of(nlp.get_pipe("elmo").model).bilm
    for _ in range(4):
        update(nlp, batch, optimizer, options)
    if "ner" not in options.get("exclude", ()):
        assert bilm.fingerprint() == expected.get_pipe("elmo").bilm.fingerprint()


@pytest.mark.parametrize("exclude", [[], ["ner"]])
def test_a_rate_is_that_of_its_own_update(exclude):
    """Also where nothing says that the update is over before the rate is another."""
    found = []
    for make in (update, in_two_steps):
        nlp, batch, optimizer = begin(factor=1.0)
        for rate in (0.01, 0.005, 0.0):
            optimizer.learn_rate = rate
            make(nlp, batch, optimizer, {"exclude": exclude})
        found.append(tensor(nlp))
    assert np.array_equal(*found)


class SlowOptimizer(Optimizer):
    """Takes so long for a step that another thread looks meanwhile."""

    __slots__ = ()
    begun = Event()

    def __call__(self, *args, **kwargs):
        self.begun.set()
        time.sleep(0.01)
        return super().__call__(*args, **kwargs)


def test_threads_that_look_at_once():
    """The step is made once, and none sees a part of it."""
    options = {"exclude": ["ner"]}
    expected = tensor(after(in_two_steps, options)[0])
    nlp, _, optimizer = begin()
    optimizer.__class__ = SlowOptimizer
    batch = examples(nlp)
    for _ in range(4):
        update(nlp, batch, optimizer, options)
    SlowOptimizer.begun.clear()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(tensor, nlp)
        assert SlowOptimizer.begun.wait(60)
        others = pool.map(lambda _: tensor(nlp), range(3))
        for found in (*others, first.result()):
            assert np.allclose(found, expected, atol=1e-6)
