"""A listener that is sourced into another pipeline, and a pipeline begun again."""

import gc
import warnings

import numpy as np
import pytest
import spacy
from thinc.api import fix_random_seed
from typer.testing import CliRunner

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.cli import app

from ..models import tiny_config
from ..pipelines import (
    LISTENER,
    TAGGER,
    add_elmo,
    annotations,
    examples,
    listeners,
    mix_of,
    pipeline,
    trained,
)


def heard(nlp):
    """Return what the tagger's listener makes of a Doc."""
    doc = nlp.get_pipe("elmo")(nlp.make_doc("I like Paris"))
    return nlp.get_pipe("tagger").model.get_ref("tok2vec").predict([doc])[0]


def test_the_pipeline_that_it_came_from_goes_on_as_before():
    source, new = trained(30), spacy.blank("xx")
    before = heard(source)
    add_elmo(new, seed=2)
    new.add_pipe("tagger", source=source)
    assert abs(heard(new) - before).max() > 1e-3
    assert np.array_equal(heard(source), before)
    found = annotations(source)
    del new
    gc.collect()
    assert np.array_equal(heard(source), before)
    assert annotations(source) == found


def test_initialize_begins_with_a_new_mix():
    """Of listeners, and of what replaces them."""
    nlp, replaced = pipeline(), spacy.blank("xx")
    add_elmo(replaced)
    replaced.add_pipe("tagger", config=TAGGER)
    replaced.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    for each in (nlp, replaced):
        found = []
        for _ in range(2):
            fix_random_seed(0)
            batch = examples(each)
            optimizer = each.initialize(lambda batch=batch: batch)
            for _ in range(20):
                each.update(batch, sgd=optimizer)
            tok2vec = each.get_pipe("tagger").model.get_ref("tok2vec")
            found.append(mix_of(tok2vec))
        for first, second in zip(*found):
            assert np.array_equal(first, second)


def test_a_mix_that_is_loaded_stays(tmp_path):
    nlp = trained(20)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    for ours, theirs in zip(listeners(nlp), listeners(loaded)):
        for before, after in zip(mix_of(ours), mix_of(theirs)):
            assert np.array_equal(before, after)


def test_frozen_is_saved_as_it_was_set(tmp_path):
    nlp = trained(frozen=False)
    nlp.get_pipe("elmo").frozen = True
    nlp.to_disk(tmp_path)
    assert spacy.load(tmp_path).get_pipe("elmo").frozen


def passes(nlp, run):
    """Return how often the biLM runs meanwhile."""
    found, bilm = [], dict(nlp.components)["elmo"].bilm
    hook = bilm.register_forward_hook(lambda *x: found.append(x))
    run()
    hook.remove()
    return len(found)


def test_one_pass_for_a_component_that_is_enabled_later(tmp_path):
    trained().to_disk(tmp_path)
    nlp = spacy.load(tmp_path, disable=["ner"])
    nlp.enable_pipe("ner")
    assert nlp("I like Paris")[0].tag_
    assert passes(nlp, lambda: nlp("She hates Paris")) == 1


def test_one_pass_in_the_pipeline_that_it_came_from():
    source, new = trained(), spacy.blank("xx")
    new.add_pipe("elmo", source=source)
    source("I like Paris")
    assert passes(source, lambda: source("She hates Paris")) == 1


@pytest.mark.parametrize("how", ["update without elmo", "elmo is disabled"])
def test_one_pass_where_only_listeners_run(how):
    nlp = trained()
    if how == "elmo is disabled":
        nlp.disable_pipe("elmo")
        assert passes(nlp, lambda: nlp("She hates Paris")) == 1
    else:
        batch = examples(nlp)
        assert passes(nlp, lambda: nlp.update(batch, exclude=["elmo"])) == 1


def test_frozen_is_saved_under_another_name(tmp_path):
    nlp = trained(frozen=False)
    nlp.rename_pipe("elmo", "encoder")
    nlp.get_pipe("encoder").frozen = True
    nlp.to_disk(tmp_path)
    assert spacy.load(tmp_path).get_pipe("encoder").frozen


def test_a_table_of_mixes_of_different_depths(tmp_path):
    nlp = trained()
    add_elmo(nlp, name="flat", sizes=tiny_config(n_layers=1))
    listener = {**LISTENER, "upstream": "flat"}
    model = {**TAGGER["model"], "tok2vec": listener}
    nlp.add_pipe("tagger", name="second", config={"model": model})
    nlp.initialize(lambda: examples(nlp))
    nlp.to_disk(tmp_path)
    found = CliRunner().invoke(app, ["explore", "mix", str(tmp_path)])
    assert found.exit_code == 0 and "second" in found.output


def test_a_mix_is_told_of_weights_that_are_loaded_when_they_are_used(tmp_path):
    trained(20).to_disk(tmp_path / "pipeline")
    BiLM.random(tiny_config(), seed=7).save(tmp_path / "other")
    nlp = spacy.blank("xx")
    nlp.add_pipe("elmo", config={"weights": str(tmp_path / "other")})
    nlp.add_pipe("tagger", source=spacy.load(tmp_path / "pipeline"))
    with pytest.warns(UserWarning, match="ELW20"):
        nlp("I like Paris")


def test_a_mix_that_was_never_saved_is_known_by_the_bilm_that_trained_it(tmp_path):
    """Not by that of the pipeline that it was sourced into, which is saved first."""
    source, nlp = trained(20), spacy.blank("xx")
    add_elmo(nlp, seed=5)
    with pytest.warns(UserWarning, match="ELW20"):
        nlp.add_pipe("tagger", source=source)
    nlp.to_disk(tmp_path / "other")
    with pytest.warns(UserWarning, match="ELW20"):
        spacy.load(tmp_path / "other")
    source.to_disk(tmp_path / "own")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spacy.load(tmp_path / "own")
