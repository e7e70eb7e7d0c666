"""How much is computed at once, by the type of device; a GPU is what says it is one."""

from contextlib import nullcontext

import pytest
import spacy
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.objectives import AdaptiveSoftmax, FullSoftmax
from spacy_elmo.machine import (
    CPU_BATCH_LIMITS,
    GPU_BATCH_LIMITS,
    batch_limits,
    transfer,
)
from spacy_elmo.pipeline.encoder import group_docs
from spacy_elmo.pretrain import perplexity
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text.corpus import build_corpus

from ..models import tiny_config
from ..pipelines import add_elmo

SIZES = {"cpu": CPU_BATCH_LIMITS, "cuda": GPU_BATCH_LIMITS}
on_each = pytest.mark.parametrize("device", SIZES)


@pytest.fixture
def sizes(device, monkeypatch):
    """Take the host for such a device."""
    monkeypatch.setattr(transfer, "CPU_BATCH_LIMITS", SIZES[device])
    return SIZES[device]


@on_each
def test_it_is_the_type_of_device_that_says(device):
    assert batch_limits(torch.device(device)) == SIZES[device]


@on_each
def test_tokens(sizes):
    bilm = BiLM.random(tiny_config())
    rows = []
    bilm.register_forward_pre_hook(lambda _, args: rows.append(len(args[0].word_N)))
    sentences = [["a"] * 98] * 400
    bilm.encode(sentences)
    assert max(rows) == sizes.tokens // 100 * 100
    bilm.encode(sentences[:2], batch_tokens=100)
    assert rows[-1] == 100


@on_each
@pytest.mark.parametrize("batch_tokens", [None, 50_000])
def test_docs(sizes, batch_tokens):
    nlp = spacy.blank("en")
    elmo = add_elmo(nlp, model={"batch_tokens": batch_tokens})
    docs = [nlp.make_doc("a " * 10_000)] * 30
    groups = list(group_docs(elmo.model, docs))
    each = -(-max(16_384, 2 * (batch_tokens or sizes.tokens)) // 10_000)
    assert [len(group) for group in groups[:-1]] == [each] * (len(groups) - 1)
    assert len(next(group_docs(elmo.model, docs, 1))) == 1


class Rows(TorchDispatchMode):
    """Notes how many logits are computed at once."""

    found = ()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ == "addmm":
            self.found = (*self.found, result.numel())
        return result


@on_each
@pytest.mark.parametrize("kind", [FullSoftmax, AdaptiveSoftmax])
def test_logits(sizes, kind, monkeypatch):
    # A device without data has none.
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    with torch.device("meta"):
        softmax = kind(4, 80_000, *([[50_000]] if kind is AdaptiveSoftmax else []))
        h_NH, target_N = torch.empty(9_000, 4), torch.zeros(9_000, dtype=torch.int64)
    assert softmax.logits_per_prediction > 50_000
    known = softmax.prepare(
        target_N.new_zeros(9_000, device="cpu").numpy(), h_NH.device
    )
    with Rows() as rows, torch.no_grad():
        softmax(h_NH, target_N, *([] if known is None else [known]))
    assert sizes.logits // 2 < max(rows.found) <= sizes.logits


@on_each
def test_streams_of_perplexity(sizes):
    """As many on every device: each begins with zeros, which the figure depends on."""
    corpus = build_corpus([["a", "b", "c"]] * 3_000)
    bilm = BiLM.random(tiny_config(), vocab=corpus.vocab)
    model = LanguageModel(bilm, FullSoftmax(bilm.config.projection_dim, 6))
    read, streams = model.read, []
    model.read = lambda batch, state: (
        streams.append(batch.n_streams) or read(batch, state)
    )
    perplexity(model, corpus)
    assert set(streams) == {16}
