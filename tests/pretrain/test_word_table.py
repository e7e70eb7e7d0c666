"""A table of words beside the char-CNN, or in its place, is trained with the rest."""

import pytest
import torch

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.models import read_card
from spacy_elmo.pretrain.loop import pretrain
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text.corpus import build_corpus
from spacy_elmo.text.streams import Streams

from ..models import tiny_config
from .runs import CONFIG, TEXT, config, without_model

# <S> </S> <UNK> and the eight words of the text.
TABLE = {"model.n_words": 11}
SIZES = [{**TABLE, "model.word_dim": 4}, TABLE]


@pytest.mark.parametrize("word_dim", [0, 4])
def test_streams_read_words_as_the_bilm_does(word_dim):
    """By the table's row for each word, that of <UNK> for others."""
    corpus = build_corpus(TEXT, vocab_size=6)
    sizes = tiny_config(n_words=6, word_dim=word_dim)
    bilm = BiLM.random(sizes, vocab=corpus.vocab)
    batch = Streams(corpus, bilm, 4, 6).batch(0)
    ids = [torch.from_numpy(array) for array in batch.token_ids]
    assert len(ids) == 1 + bool(word_dim)
    read = bilm.token_encoder(*ids)[torch.from_numpy(batch.forward.word_N)]
    text = [corpus.words[w] for w in corpus.forward.read(0, 6)]  # of the first stream
    assert len(set(text) - set(corpus.vocab)) > 0
    assert torch.allclose(read[::4], bilm.token_vectors(text), atol=1e-6)


@pytest.mark.parametrize("sizes", SIZES)
def test_a_table_of_words_learns(folder, sizes):
    best = pretrain(config(folder, overrides=sizes), folder / "out")
    bilm = BiLM.load(best)
    start = BiLM.random(bilm.config, seed=0)
    name = "word_embedding" if "model.word_dim" in sizes else "embedding"
    table, before = (getattr(b.token_encoder, name) for b in (bilm, start))
    moved = (table - before).abs().amax(dim=1)
    assert (moved[3:] > 0.01).all()  # every word of the text
    card = read_card(best)
    assert card["dev_perplexity"]["mean"] < 6  # of 11 words
    known, other = bilm.token_vectors(["cat", "cats"])
    assert not torch.equal(known, other)


def test_it_is_continued_with_its_vocabulary(folder):
    first = pretrain(config(folder, overrides=SIZES[0]), folder / "first")
    overrides = {"training.init": str(first)}
    text = without_model(CONFIG)
    best = pretrain(config(folder, text, overrides), folder / "second")
    assert LanguageModel.load(best).bilm.vocab == LanguageModel.load(first).bilm.vocab
    before = read_card(first)["dev_perplexity"]["mean"]
    assert read_card(best)["dev_perplexity"]["mean"] < before
    overrides["training.new_softmax"] = True
    with pytest.raises(ValueError, match=r"EL037.*new_softmax"):
        pretrain(config(folder, text, overrides), folder / "third")


def test_a_table_of_another_size_is_refused_with_the_size(folder):
    sizes = {**SIZES[0], "model.n_words": 40}
    with pytest.raises(ValueError, match=r"EL037.*n_words \(40\) must be 11"):
        pretrain(config(folder, overrides=sizes), folder / "out")


def test_words_beside_characters_are_not_exported_to_bilm_tf(folder):
    bilm = BiLM.load(pretrain(config(folder, overrides=SIZES[0]), folder / "out"))
    with pytest.raises(ValueError, match="words beside characters"):
        bilm.save(folder / "exported", format="bilm-tf")
    assert not (folder / "exported").exists()
