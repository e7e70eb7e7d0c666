"""How the files that are attacked are made and read.

A reader returns what was found in the files, as one hash, and the fingerprint that it
stands under, if it has one.
"""

import bz2
import gzip
import hashlib
import json
import lzma
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import spacy
import torch

from spacy_elmo import BiLM, embed
from spacy_elmo.bilm import objectives
from spacy_elmo.bilm.weights.tensor_bundle import TensorBundle
from spacy_elmo.models import read_card
from spacy_elmo.pipeline.cache import FileCache, key_of
from spacy_elmo.pretrain import checkpoint, optimizers
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.model import LanguageModel
from spacy_elmo.text import Request, prepare, read_lines
from spacy_elmo.text.shards import open_corpus
from spacy_elmo.words import WordEncoder
from tests.bilm.many_langs import save_many_langs
from tests.bilm.weights.tensor_bundles import write_bundle
from tests.embed.corpora import embed_files, write_lines
from tests.models import SENTENCES, tiny_config
from tests.pipelines import add_elmo
from tests.pretrain.runs import TEXT, write_config
from tests.words import tiny_encoder

GOLD = Path(__file__).parents[1] / "tests" / "gold" / "bilm_tf_checkpoint"
VOCAB = ["<S>", "</S>", "<UNK>", "The", "cat", "고양이"]


class Found(NamedTuple):
    """Hash of what was read, and the fingerprint that it has."""

    value: str
    fingerprint: str | None = None


class Refused(ValueError):
    """What a reader reports without raising it: coded as those that are raised."""


def hashed(*parts: Any) -> str:
    """Return a hash of arrays and of whatever `repr` shows in full."""
    digest = hashlib.sha256()
    for part in parts:
        array = part.detach().numpy() if isinstance(part, torch.Tensor) else part
        if isinstance(array, np.ndarray):
            digest.update(array.tobytes())
        else:
            digest.update(repr(array).encode("utf-8", "replace"))
    return digest.hexdigest()


# -- models -----------------------------------------------------------------------


def read_model(folder: Path) -> Found:
    bilm = BiLM.load(folder)
    return Found(hashed(*bilm.encode(SENTENCES)), bilm.fingerprint())


def read_own_model(folder: Path) -> Found:
    bilm = BiLM.load(folder)
    words = bilm.vocab, bilm.alphabet
    return Found(hashed(words, *bilm.encode(SENTENCES)), bilm.fingerprint())


def make_own(folder: Path) -> None:
    BiLM.random(tiny_config(), seed=1, vocab=VOCAB).save(folder)


def make_own_alphabet(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as other:
        save_many_langs(Path(other) / "theirs")
        BiLM.load(Path(other) / "theirs").save(folder)


def make_bilm_tf(folder: Path) -> None:
    BiLM.random(tiny_config(), seed=1, vocab=VOCAB).save(folder, format="bilm-tf")


def make_bilm_tf_words(folder: Path) -> None:
    bilm = BiLM.random(tiny_config(n_words=len(VOCAB)), seed=1, vocab=VOCAB)
    bilm.save(folder, format="bilm-tf")


def make_checkpoint_of_bilm_tf(folder: Path) -> None:
    shutil.copytree(GOLD, folder)


def read_trained_model(folder: Path) -> Found:
    model = LanguageModel.load(folder)
    arrays = *model.bilm.encode(SENTENCES), *model.softmax.state_dict().values()
    return Found(hashed(*arrays), model.bilm.fingerprint())


def make_hub_module(folder: Path) -> None:
    """The arrays of the checkpoint under the names of a module, in two data files."""
    bundle, arrays = TensorBundle(GOLD / "model.ckpt-92"), {}
    for name, entry in bundle.entries.items():
        if name.startswith("lm/") and not name.endswith("Adagrad") and entry.dtype:
            theirs = name.replace("/rnn/multi_rnn_cell/cell_", "/RNN/MultiRNNCell/Cell")
            theirs = theirs.replace("/lstm_cell/", "/rnn/lstm_cell/")
            arrays["bilm/" + theirs.removeprefix("lm/")] = bundle.read(name)
    arrays["aggregation/weights"] = np.arange(3, dtype="f4")
    arrays["aggregation/scaling"] = np.ones((), dtype="f4")
    write_bundle(folder / "variables/variables", arrays, n_shards=2)
    (folder / "tfhub_module.pb").write_bytes(b"\x08\x03")


def make_zip(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as other:
        make_bilm_tf(Path(other) / "model")
        shutil.make_archive(str(folder / "model"), "zip", Path(other) / "model")


def read_zip(folder: Path) -> Found:
    return read_model(folder / "model.zip")


def make_many_langs_legacy(folder: Path) -> None:
    """As PyTorch wrote files before version 1.6, and as the published ones are."""
    save_many_langs(folder)
    for path in folder.glob("*.pkl"):
        arrays = torch.load(path, weights_only=True)
        torch.save(arrays, path, _use_new_zipfile_serialization=False)


def make_softmax(folder: Path) -> None:
    torch.manual_seed(0)
    folder.mkdir()
    objective = objectives.AdaptiveSoftmax(6, 30, cutoffs=[8])
    objectives.save(objective, folder / objectives.FILE)


def read_softmax(folder: Path) -> Found:
    objective = objectives.load(folder / objectives.FILE, 6, 30)
    return Found(hashed(*objective.state_dict().values()))


def make_words(folder: Path) -> None:
    folder.mkdir()
    tiny_encoder().save(folder)


def read_words(folder: Path) -> Found:
    vectors_ND = WordEncoder.load(folder).vectors(["abc", "abcde", "日", "."])
    return Found(hashed(torch.from_numpy(vectors_ND)))


def make_card(folder: Path) -> None:
    card = {"text": {"train": ["a.txt"]}, "perplexity": 33.3, "licence": "CC0"}
    BiLM.random(tiny_config(), seed=1).save(folder, card=card)


def read_the_card(folder: Path) -> Found:
    return Found(hashed(read_card(folder)))


# -- training ---------------------------------------------------------------------


def make_prepared(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as other:
        text = Path(other) / "text.txt"
        text.write_text("\n".join(map(" ".join, TEXT)))
        request = Request(vocab_size=9, tokenizer="whitespace", sentences=False)
        prepare([text], folder, request, progress=False)


def read_prepared(folder: Path) -> Found:
    corpus = open_corpus(folder)
    text = [ids.read(0, len(ids)) for ids in (corpus.forward, corpus.backward)]
    words = corpus.words, corpus.vocab
    return Found(hashed(words, corpus.counts_V, corpus.characters_VC, *text))


def make_run_config(folder: Path) -> None:
    folder.mkdir()
    write_config(folder)


def read_run_config(folder: Path) -> Found:
    return Found(hashed(read_config(folder / "run.cfg")))


def small_training() -> tuple[LanguageModel, list[Any]]:
    torch.manual_seed(0)
    bilm = BiLM.random(tiny_config())
    model = LanguageModel(bilm, objectives.FullSoftmax(bilm.config.projection_dim, 9))
    parts = {"bilm": model.bilm, "softmax": model.softmax}
    dense = {
        name: parameter
        for prefix, part in parts.items()
        for name, parameter in part.named_parameters(prefix=prefix)
    }
    return model, list(optimizers.adam(0.01).make(dense, {}))


def make_checkpoint(folder: Path) -> None:
    model, learners = small_training()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    for learner in learners:
        learner.step()
    state = model.bilm.zero_state(2)
    checkpoint.save(folder, model, learners, state, progress_at(10))


def progress_at(step: int) -> dict[str, Any]:
    """Return what a run says of itself in a checkpoint."""
    kept = {"identity": {}, "results": {}, "recent": [3.5, 3.25]}
    return {"step": step, "n_steps": 100, "seconds": 1.5, **kept}


def read_checkpoint(folder: Path) -> Found:
    progress = checkpoint.read_progress(folder)
    model, learners = small_training()
    state = checkpoint.load(folder, model, learners)
    arrays = [*model.state_dict().values(), *state.forward, *state.backward]
    rest = [learner.state_dict() for learner in learners]
    return Found(hashed(progress, *arrays, rest))


# -- pipelines --------------------------------------------------------------------

CACHED = {
    key_of("x", [str(n)]): np.random.default_rng(n).normal(size=(3, 4, 8)).astype("f4")
    for n in range(40)
}


def make_layer_cache(folder: Path) -> None:
    folder.mkdir()
    cache = FileCache(folder / "layers.sqlite", 64 << 20)
    cache.write(CACHED)
    cache.close()
    with sqlite3.connect(folder / "layers.sqlite") as db:
        db.execute("PRAGMA journal_mode = DELETE")  # in one file
    db.close()


def read_layer_cache(folder: Path) -> Found:
    """What is not found is computed again, so that is right too."""
    cache = FileCache(folder / "layers.sqlite", 64 << 20)
    try:
        cache.use(b"context")
        found = cache.read(list(CACHED))
    finally:
        cache.close()
    right = all(np.array_equal(found[key], CACHED[key]) for key in found)
    return Found("right" if right else hashed(*found.values()))


def make_pipeline(folder: Path) -> None:
    nlp = spacy.blank("xx")
    add_elmo(nlp)
    nlp.to_disk(folder)


def read_pipeline(folder: Path) -> Found:
    elmo = spacy.load(folder).get_pipe("elmo")
    layers = elmo.bilm.encode(SENTENCES)
    return Found(hashed(*layers), elmo.fingerprint())


# -- vectors of corpora -----------------------------------------------------------


def make_vectors(folder: Path) -> None:
    folder.mkdir()
    text = write_lines(folder / "text.txt", 6)
    embed_files(folder, [text])


def read_vectors(folder: Path) -> Found:
    """As one who verifies what was made elsewhere before reading it."""
    if problems := embed.verify(folder / "vectors").problems:
        raise Refused(f"[EL208] verify: {problems}")
    corpus = embed.open(folder / "vectors")
    found = [(each.id, each.tokens, np.array(each.vectors)) for each in corpus]
    return Found(hashed(*(part for each in found for part in each)))


# -- text -------------------------------------------------------------------------

LINES = [" ".join(sentence) for sentence in [*TEXT[:3], *SENTENCES]]


def make_text(folder: Path) -> None:
    folder.mkdir()
    lines = "\n".join(LINES).encode()
    (folder / "text.txt").write_bytes(lines)
    records = [json.dumps({"text": line, "id": n}) for n, line in enumerate(LINES)]
    (folder / "text.jsonl").write_text("\n".join(records))
    for suffix, module in (("gz", gzip), ("bz2", bz2), ("xz", lzma)):
        (folder / f"text.txt.{suffix}").write_bytes(module.compress(lines))


def read_text(folder: Path) -> Found:
    return Found(hashed(*_lines(sorted(folder.glob("text*")))))


def _lines(paths: Iterable[Path]) -> list[str]:
    return [line for path in paths for line in read_lines(path)]
