"""spacy elmo vocab-cache: token vectors computed once."""

from pathlib import Path

import typer
from wasabi import msg

from .group import app, clear_errors, model_folder


@app.command("vocab-cache")
def vocab_cache_cli(
    model: Path = typer.Argument(
        ...,
        callback=model_folder,
        help="Model folder, in any format, or a name that ships",
    ),
    words: Path = typer.Argument(..., help="Text file, UTF-8, with a word a line"),
) -> None:
    """Compute the token vectors of words and keep them in the model's folder, so that
    texts of these words need no char-CNN. Other words are computed as ever."""
    from tqdm import tqdm

    from ..bilm import vocab_cache
    from ..bilm.bilm import BiLM
    from ..bilm.files.own import VOCAB_CACHE
    from ..bilm.files.text_files import read_vocab

    with clear_errors():
        listed = [word for word in read_vocab(words) if word]
        bilm = BiLM.load(model, use_vocab_cache=False)  # an old one is written over
        n = vocab_cache.make(bilm, listed, model, progress=tqdm)
        megabytes = (model / VOCAB_CACHE).stat().st_size / (1 << 20)
        msg.good(f"Wrote {n:,} words to {model / VOCAB_CACHE} ({megabytes:.1f} MB)")
