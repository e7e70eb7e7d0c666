"""Teach a small word encoder the teacher's vectors.

    python -m experiments.words.learn WORDS FOLDER OUTPUT

WORDS and FOLDER are those of `teacher`; OUTPUT is a folder for `words.safetensors`.
Weights and what layers make are rounded to whole numbers of eight bits while it learns,
and gradients pass through the rounding as if it were not there (Jacob et al. 2018), so
that `spacy_elmo.words.WordEncoder` computes what was learned. One word in 83 is held
out.

Shapes: B words, P pieces, E embedding, H hidden, D vector.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import typer
from safetensors.torch import load_file
from torch import Tensor, nn

from spacy_elmo.words import WordEncoder
from spacy_elmo.words.encoder import LARGEST
from spacy_elmo.words.pieces import FIRST, LAST, pieces_of

from .teacher import PER_FILE, model_folder, read_vocabulary

WIDTH, MAX_PIECES, LATIN = 128, 10, 0x2E80
TABLE_RANGE, HIDDEN_RANGE = 1.0, 4.0


def read_targets(
    words: Path, folder: Path, n_files: int
) -> tuple[list[str], np.ndarray]:
    """Return words, and the teacher's vectors: principal components, (N, 128), scaled
    so that their mean square is one."""
    lines = words.read_text(encoding="utf-8").splitlines()
    files = sorted(folder.glob("*.npy"))[: n_files or None]
    sample = np.concatenate([np.load(file)[::8] for file in files]).astype(np.float32)
    mean = sample.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov((sample - mean).T.astype(np.float64)))
    axes = axes[:, np.argsort(-variances)[:WIDTH]].astype(np.float32)
    # The sign of an axis is a matter of rounding: the largest entry is positive.
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(WIDTH)])
    scale = 1 / np.sqrt(np.square((sample - mean) @ axes).mean())
    kept: list[str] = []
    targets = []
    for file in files:
        first = int(file.stem) * PER_FILE
        some = lines[first : first + PER_FILE]
        is_kept = [all(ord(c) < LATIN for c in word) for word in some]
        kept += [word for word, keep in zip(some, is_kept, strict=True) if keep]
        vectors = np.load(file).astype(np.float32)[np.array(is_kept)]
        targets.append(((vectors - mean) @ axes * scale).astype(np.float16))
    return kept, np.concatenate(targets)


def pieces_table(words: list[str], numbers: dict[str, int]) -> tuple[Tensor, Tensor]:
    """Return the pieces of words, (N, MAX_PIECES), and how many each has."""
    ids = np.zeros((len(words), MAX_PIECES), dtype=np.int32)
    counts = np.zeros(len(words), dtype=np.int64)
    for row, word in enumerate(words):
        some = pieces_of(word, numbers)
        if len(some) <= MAX_PIECES:
            ids[row, : len(some)] = some
            counts[row] = len(some)
    return torch.from_numpy(ids), torch.from_numpy(counts)


def rounded(x: Tensor, largest: float) -> Tensor:
    """Return x rounded to one of 255 numbers; its gradient is that of x."""
    step = largest / LARGEST
    x = x.clamp(-largest, largest)
    return x + ((x / step).round() * step - x).detach()


def rounded_weight(weight_OI: Tensor) -> Tensor:
    """Return a weight whose rows are rounded, each by its own largest entry."""
    step = weight_OI.detach().abs().amax(dim=1, keepdim=True) / LARGEST + 1e-12
    return weight_OI + ((weight_OI / step).round() * step - weight_OI).detach()


def product(x: Tensor, layer: nn.Linear) -> Tensor:
    """Return the layer's sums, multiplied in bfloat16, which takes half the time."""
    weight = rounded_weight(layer.weight).bfloat16()
    return F.linear(x.bfloat16(), weight).float() + layer.bias


class Student(nn.Module):
    """What `WordEncoder` computes, with parameters that learn."""

    def __init__(
        self, n_pieces: int, boundaries: tuple[int, int], E: int, H: int, depth: int
    ) -> None:
        super().__init__()
        self.boundaries = boundaries
        self.table = nn.Embedding(n_pieces, E, sparse=True)
        nn.init.normal_(self.table.weight, std=0.25 * TABLE_RANGE)
        sizes = [E] + [H] * (depth - 1)
        self.layers = nn.ModuleList(nn.Linear(3 * size, H) for size in sizes)
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight)
            layer.weight.data *= 4 if layer is self.layers[0] else 1
        self.output = nn.Linear(H, WIDTH)

    def forward(self, ids_BP: Tensor, n_B: Tensor) -> Tensor:
        B, P = ids_BP.shape
        is_piece = (torch.arange(P)[None] < n_B[:, None])[..., None].float()
        ids = F.pad(ids_BP, (1, 1))
        ids[:, 0] = self.boundaries[0]
        ids[torch.arange(B), n_B + 1] = self.boundaries[1]
        x = rounded(self.table(ids), TABLE_RANGE)
        is_known = F.pad(is_piece, (0, 0, 1, 1)) + 0.0
        is_known[:, 0] = 1
        is_known[torch.arange(B), n_B + 1] = 1
        x = x * is_known
        for number, layer in enumerate(self.layers):
            windows = torch.cat((x[:, :-2], x[:, 1:-1], x[:, 2:]), dim=-1)
            y = F.relu(product(windows, layer))
            if number:
                y = y + x[:, 1:-1]
            y = rounded(y, HIDDEN_RANGE) * is_piece
            x = F.pad(y, (0, 0, 1, 1))
        mean = x.sum(dim=1) / n_B[:, None]
        return F.linear(mean, rounded_weight(self.output.weight), self.output.bias)

    @torch.no_grad()
    def arrays(self, pieces: list[str]) -> dict[str, np.ndarray]:
        """Return the arrays of a `WordEncoder`."""
        table = (
            self.table.weight.clamp(-TABLE_RANGE, TABLE_RANGE) / TABLE_RANGE * LARGEST
        ).round()
        found = {
            "format": np.array(1, dtype=np.int32),
            "pieces": np.frombuffer("\n".join(pieces).encode(), dtype=np.uint8),
            "table": table.to(torch.int8).numpy(),
        }
        into = TABLE_RANGE / LARGEST
        for name, layer in [
            *((f"layer.{n}", each) for n, each in enumerate(self.layers)),
            ("output", self.output),
        ]:
            step = layer.weight.abs().amax(dim=1) / LARGEST + 1e-12
            out = 1.0 if name == "output" else HIDDEN_RANGE / LARGEST
            found[f"{name}.weight"] = (
                (layer.weight / step[:, None])
                .round()
                .to(torch.int8)
                .T.contiguous()
                .numpy()
            )
            found[f"{name}.scale"] = (step * into / out).numpy()
            found[f"{name}.bias"] = (layer.bias / out).numpy().copy()
            into = HIDDEN_RANGE / LARGEST
        return found


def batches(
    train: Tensor, n_N: Tensor, size: int, generator: torch.Generator
) -> Iterator[Tensor]:
    """Yield batches of words of like lengths, for ever."""
    while True:
        order = train[torch.randperm(len(train), generator=generator)]
        for pool in order.split(64 * size):
            some = pool[torch.argsort(n_N[pool], stable=True)].split(size)
            for number in torch.randperm(len(some), generator=generator).tolist():
                yield some[number]


def main(
    words: Path = typer.Argument(..., help="A word a line"),
    folder: Path = typer.Argument(..., help="The teacher's vectors of them"),
    output: Path = typer.Argument(..., help="Folder for words.safetensors"),
    n_files: int = typer.Option(0, help="Files of vectors, 0 for all"),
    embedding: int = 320,
    hidden: int = 256,
    depth: int = 3,
    batch: int = 512,
    steps: int = 10_000,
    rate: float = 0.002,
) -> None:
    """Train, and write the encoder."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    numbers = read_vocabulary(model_folder() / "vocab.txt")
    known, targets = read_targets(words, folder, n_files)
    targets = torch.from_numpy(targets)
    ids, n_N = pieces_table(known, numbers)
    every = torch.arange(len(known))
    fits = n_N > 0
    is_held = every * 2654435761 % 997 < 12
    train, held = every[fits & ~is_held], every[fits & is_held]
    print(f"{len(train):,} words to learn, {len(held):,} held out", flush=True)
    model = Student(
        len(numbers), (numbers[FIRST], numbers[LAST]), embedding, hidden, depth
    )
    begin_with_teacher(model.table)
    dense = [p for name, p in model.named_parameters() if name != "table.weight"]
    optimizers = [
        (torch.optim.Adam(dense, lr=rate), rate),
        (torch.optim.SparseAdam([model.table.weight], lr=rate), 4 * rate),
    ]
    drawn = batches(train, n_N, batch, torch.Generator().manual_seed(0))
    mean, started = 0.0, time.process_time()
    for step in range(1, steps + 1):
        some = next(drawn)
        n_B = n_N[some]
        factor = min(1, step / 200) * max(0.01, 1 - step / steps)
        for optimizer, full in optimizers:
            optimizer.param_groups[0]["lr"] = full * factor
            optimizer.zero_grad()
        found = model(ids[some, : int(n_B.max())].long(), n_B)
        loss = (found - targets[some].float()).square().mean()
        loss.backward()
        for optimizer, _ in optimizers:
            optimizer.step()
        mean = loss.item() if step == 1 else 0.99 * mean + 0.01 * loss.item()
        if step % 500 == 0 or step == steps:
            seconds = time.process_time() - started
            print(f"{step} of {steps}: loss {mean:.4f}, {seconds:.0f} s", flush=True)
        if step % 4000 == 0 or step == steps:
            output.mkdir(parents=True, exist_ok=True)
            encoder = WordEncoder(model.arrays(list(numbers)))
            encoder.save(output)
            report(encoder, known, targets, held)


def begin_with_teacher(table: nn.Embedding) -> None:
    """Let the table begin with principal components of the teacher's own."""
    arrays = load_file(model_folder() / "model.safetensors")
    weights = next(
        v for k, v in arrays.items() if k.endswith("word_embeddings.weight")
    ).float()
    E = table.weight.shape[1]
    _, _, axes = torch.pca_lowrank(weights, E, niter=4)
    found = (weights - weights.mean(dim=0)) @ axes
    table.weight.data[:] = found / found.std() * 0.25 * TABLE_RANGE


def report(
    encoder: WordEncoder, words: list[str], targets: Tensor, held: Tensor
) -> None:
    """Print how much of the variance of held-out words is explained."""
    found = torch.from_numpy(encoder.vectors([words[n] for n in held.tolist()]))
    wanted = targets[held].float()
    for name, part in (
        ("first tenth", slice(0, len(held) // 10)),
        ("last half", slice(len(held) // 2, None)),
    ):
        rest = (found[part] - wanted[part]).square().sum()
        all_ = (wanted[part] - wanted.mean(dim=0)).square().sum()
        cosine = F.cosine_similarity(found[part], wanted[part]).mean()
        print(
            f"held out, {name}: {1 - rest / all_:.4f} of variance, cosine {cosine:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    typer.run(main)
