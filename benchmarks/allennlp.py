"""How many times as fast as AllenNLP's own ELMo module, with the same weights.

    pip install --no-deps --target FOLDER allennlp==2.10.1
    python -m benchmarks.allennlp FOLDER

AllenNLP asks for an older torch, so nothing but the files of its module is imported;
what they import beside torch and NumPy, and do not need here, is an empty stand-in.
Both compute on one thread, in turn; their time is that of the processor.
"""

import copy
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import typer

from spacy_elmo.bilm.bilm import BiLM

from .speed import (
    Sentences,
    load_model,
    on_threads,
    precisions,
    read_sentences,
    show,
    single_sentences,
)
from .timing import MODEL, TEXT

BATCH_SIZE = 64
# Modules that are not imported, and the names that are asked of them.
STAND_INS = {
    "common": ("FromParams",),
    "common.checks": ("ConfigurationError",),
    "common.file_utils": ("cached_path",),
    "common.util": (
        "int_to_device", "is_distributed", "is_global_primary", "lazy_groups_of"
    ),
    "data": (),
    "data.batch": ("Batch",),
    "data.fields": ("TextField",),
    "data.instance": ("Instance",),
    "data.token_indexers": (),
    "data.token_indexers.elmo_indexer": (
        "ELMoCharacterMapper", "ELMoTokenCharactersIndexer"
    ),
    "data.tokenizers": (),
    "data.tokenizers.token_class": ("Token",),
    "data.vocabulary": ("Vocabulary",),
    "nn.initializers": ("block_orthogonal",),
}  # fmt: skip


class CharacterMapper:
    """The ids of boundaries: `character_ids` of this package, less one."""

    beginning_of_sentence_characters = [258, 256, 259] + 47 * [260]
    end_of_sentence_characters = [258, 257, 259] + 47 * [260]


def import_module(folder: Path) -> Any:
    """Return AllenNLP's biLM, of files in a folder."""
    root = folder / "allennlp"
    for name in ("", "modules", "nn"):
        full = f"allennlp.{name}".rstrip(".")
        package = sys.modules[full] = ModuleType(full)
        package.__path__ = [str(root / name)]
    for name, wanted in STAND_INS.items():
        module = sys.modules[f"allennlp.{name}"] = ModuleType(f"allennlp.{name}")
        module.__path__ = []
        for each in wanted:
            setattr(module, each, type(each, (), {}))
    modules: Any = sys.modules
    modules["allennlp.common.file_utils"].cached_path = lambda path: path
    modules["allennlp.nn.initializers"].block_orthogonal = lambda *_: None
    indexer = modules["allennlp.data.token_indexers.elmo_indexer"]
    indexer.ELMoCharacterMapper = CharacterMapper
    from allennlp.modules.elmo import _ElmoBiLm  # type: ignore[import-not-found]

    return _ElmoBiLm


class Theirs:
    """AllenNLP's biLM with the weights of ours, from zeros for each batch."""

    def __init__(self, bilm: BiLM, make: Callable[[str, str], Any]) -> None:
        self.bilm = bilm
        with tempfile.TemporaryDirectory() as folder:
            bilm.save(folder, format="bilm-tf")
            (options,) = Path(folder).glob("*options.json")
            (weights,) = Path(folder).glob("*.hdf5")
            self.module = make(str(options), str(weights)).eval()

    @torch.no_grad()
    def encode(self, sentences: Sentences) -> list[torch.Tensor]:
        """Return the layers of sentences, each (L+1, T, D)."""
        self.module._elmo_lstm._states = None  # noqa: SLF001
        ids = torch.zeros(len(sentences), max(map(len, sentences)), 50, dtype=torch.int)
        for row, sentence in zip(ids, sentences):
            row[: len(sentence)] = torch.from_numpy(self.bilm.character_ids(sentence))
        layers = torch.stack(self.module(ids.long())["activations"])
        return [layers[:, i, 1 : 1 + len(s)] for i, s in enumerate(sentences)]


def milliseconds(run: Callable[[], Any]) -> float:
    """Return the processor time of a run, on this thread."""
    started = time.thread_time()
    run()
    return 1000 * (time.thread_time() - started)


def compare(bilm: BiLM, theirs: Theirs, batches: Sentences, rounds: int) -> Any:
    """Return milliseconds of a batch for AllenNLP, and for each precision with a cold
    and a warm cache of words, how many times as fast."""
    ours = {p: copy.deepcopy(bilm).set_precision(p) for p in precisions()}  # type: ignore[arg-type]
    times: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for batch in batches:
            runs = {"AllenNLP": partial(theirs.encode, batch)}
            for name, each in ours.items():
                runs[f"{name}, cold"] = partial(each.encode, batch)
                runs[f"{name}, warm"] = partial(each.encode, batch)
            for name, run in runs.items():
                if name.endswith("cold"):
                    ours[name.split(",")[0]].token_cache.clear()
                spent = milliseconds(run)
                if number:  # the first round warms up
                    times.setdefault(name, []).append(spent)
    found = {name: statistics.median(spent) for name, spent in times.items()}
    first = found.pop("AllenNLP")
    return {"AllenNLP, ms": first} | {name: first / ms for name, ms in found.items()}


def main(
    folder: Path = typer.Argument(..., help="Where AllenNLP was installed"),
    text: Path | None = typer.Argument(None, help=TEXT),
    model: list[str] = typer.Option(["small", "medium", "original"], help=MODEL),
    rounds: int = typer.Option(2, help="Times each is measured, in turn"),
) -> None:
    make, rows = import_module(folder), []
    sentences = read_sentences(text, 1_280)
    work: dict[str, Any] = {"64": [sentences[:BATCH_SIZE]]}
    work["1, of 20 tokens"] = single_sentences(sentences)[:8]
    with on_threads(1):
        for name in model:
            bilm = load_model(name)
            theirs = Theirs(bilm, make)
            both = zip(theirs.encode(sentences[:64]), bilm.encode(sentences[:64]))
            error = max(float(abs(a.numpy() - b).max()) for a, b in both)
            for n, batches in work.items():
                row = {"model": name, "sentences": n, "largest difference": error}
                rows.append(row | compare(bilm, theirs, batches, rounds))
    show({"times as fast as AllenNLP": rows}, False)


if __name__ == "__main__":
    typer.run(main)
