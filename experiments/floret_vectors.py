"""Static vectors of a text: floret's, whose n-grams of characters share a table, so
that no word is unknown.

    pip install floret
    python . floret_vectors corpus/english_first.txt training/floret

in the folder `experiments` writes a folder that `initialize.vectors` of a
configuration, or `static` of `spacy elmo init-config`, can name.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spacy
import typer
from spacy.training.initialize import convert_vectors
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.text import read_lines

# n-grams of 4 and 5 characters, two rows of the table for each: what floret's own
# examples have. Width and rows are what half an hour of one core allows.
SETTINGS = {
    "model": "skipgram",
    "mode": "floret",
    "hashCount": 2,
    "minn": 4,
    "maxn": 5,
    "bucket": 50_000,
    "dim": 128,
    "minCount": 10,
}


def train(text: Path, file: Path, *, lang: str, epochs: int, threads: int) -> None:
    """Write the table of vectors of a text, which is split into words as spaCy does."""
    import floret  # what is missing is said before the text is read

    tokenizer = spacy.blank(lang).tokenizer
    words = file.with_suffix(".words")
    with words.open("w", encoding="utf-8") as target:
        for doc in tokenizer.pipe(tqdm(read_lines(text), unit=" lines")):
            target.write(" ".join(token.text for token in doc if not token.is_space))
            target.write("\n")
    settings: dict[str, Any] = {**SETTINGS, "epoch": epochs, "thread": threads}
    floret.train_unsupervised(str(words), **settings).save_floret_vectors(str(file))


def main(
    text: Path = typer.Argument(..., help="A text, .txt or .txt.xz"),
    output: Path = typer.Argument(..., help="Folder for the vectors"),
    lang: str = typer.Option("en", help="Language whose tokenizer is used"),
    epochs: int = typer.Option(1, help="Times that the text is read"),
    threads: int = typer.Option(1, help="Threads of floret"),
) -> None:
    """Train vectors, and write them in spaCy's format."""
    if output.exists():
        msg.fail(f"{output} is there: remove it, or choose another folder", exits=1)
    output.parent.mkdir(parents=True, exist_ok=True)
    # Beside it, and renamed in the end: a folder of that name is whole.
    with TemporaryDirectory(prefix=output.name, dir=output.parent) as folder:
        file = Path(folder) / "vectors.floret"
        train(text, file, lang=lang, epochs=epochs, threads=threads)
        nlp = spacy.blank(lang)
        convert_vectors(nlp, file, truncate=-1, prune=-1, mode="floret")
        nlp.to_disk(Path(folder) / output.name)
        os.replace(Path(folder) / output.name, output)
    msg.good(f"{output}: {nlp.vocab.vectors.shape}")


if __name__ == "__main__":
    typer.run(main)
