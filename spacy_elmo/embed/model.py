"""The biLM of a plan, and the rows that it makes of sentences."""

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from mmap import mmap
from typing import cast

import numpy as np
import spacy
import torch
from spacy.pipeline import TrainablePipe

from ..bilm import BiLM
from ..bilm.kernels import find_library, force
from ..errors import Errors
from ..machine import Precision, cpu_model, default_settings
from ..models import find
from ..pipeline import Elmo, ElmoListener, LearnedMix, learned_mixes, shares
from .keep import Kept, choose


@dataclass(frozen=True)
class Computing:
    """How vectors are computed.

    Attributes:
        precision: "float32", "half", or "tf32" on a GPU, as in `BiLM.set_precision`.
        device: "cpu" or "cuda".
        threads: Threads of each process.
        batch_tokens: Most tokens of a batch.
        block_tokens: Tokens that are read before they are sorted into batches.
        exact: Whether a sentence has the same vectors, bit for bit, in any batch. Then
            it can be verified alone; otherwise a shard is verified as a whole.
        kernels: Part and name of each kernel that was forced when the plan was made.
    """

    precision: str = "float32"
    device: str = "cpu"
    threads: int = 1
    batch_tokens: int = 2048
    block_tokens: int = 4096
    exact: bool = True
    kernels: tuple[tuple[str, str], ...] = ()


def load_model(
    source: str, mix_of: str | None = None
) -> tuple[BiLM, LearnedMix | None]:
    """Return a biLM and, from a pipeline, a mix of its layers.

    Args:
        source: Name of a shipped model, folder or file of weights, or a pipeline,
            installed or in a folder.
        mix_of: Component of the pipeline whose mix is used; None for `elmo` itself.

    Raises:
        ValueError: [EL215] There is no such mix.
        Exception: As `BiLM.load`.
    """
    if not spacy.util.is_package(source):
        path = find(source)
        if not (path / "meta.json").exists():
            if mix_of is not None:
                raise Errors.EL215(name=mix_of, source=source)
            return BiLM.load(path), None
        source = str(path)
    nlp, name = spacy.load(source), mix_of or "elmo"
    elmos = [pipe for _, pipe in nlp.components if isinstance(pipe, Elmo)]
    if mix_of is None and elmos:  # the last one that sets `doc.tensor`
        elmo = ([each for each in elmos if each.settings.set_tensor] or elmos)[-1]
        return elmo.bilm, _mix_of_tensor(elmo)
    pipe = nlp.get_pipe(name) if name in nlp.pipe_names else None
    nodes = pipe.model.walk() if isinstance(pipe, TrainablePipe) else ()
    listeners = [node for node in nodes if isinstance(node, ElmoListener)]
    if len(listeners) != 1 or not isinstance(listeners[0].upstream, Elmo):
        raise Errors.EL215(name=name, source=source)
    (mix,) = [mix for mix in learned_mixes(nlp) if mix.component == name]
    return listeners[0].upstream.bilm, mix


def _mix_of_tensor(elmo: Elmo) -> LearnedMix:
    settings, ops = elmo.settings, elmo.model.ops
    weights_L = ops.asarray1f(settings.first_weights(elmo.n_layers))
    row = [float(share) for share in shares(ops, settings, weights_L)]
    kind, norm = settings.mix, settings.layer_norm
    return LearnedMix(elmo.name, 1, kind, settings.gamma, row, norm)


def processor(device: str) -> str:
    """Return the kind of processor that vectors are computed on. A CPU is named with
    the instructions that torch and, where it is there, the C library use."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    name = cpu_model() or platform.machine()
    instructions = torch.backends.cpu.get_cpu_capability()
    if library := find_library():
        instructions += f", {library.instructions}"
    return f"{name[:200]} ({instructions})"


class Encoder:
    """Encodes sentences, and keeps of their layers what a plan asks for.

    Args:
        bilm: The model, which is moved to the device.
        kept: What is kept.
        computing: How it is computed.
        gpu_id: Number of the GPU where the device is "cuda".

    Raises:
        ValueError: [EL077] The processor does not have the precision; [EL207] the
            device is unknown; [EL151] there is no such GPU.
    """

    def __init__(
        self,
        bilm: BiLM,
        kept: Kept,
        computing: Computing,
        gpu_id: int = 0,
    ) -> None:
        choose("device", device := computing.device, ("cpu", "cuda"))
        if device == "cuda":
            device, n_gpus = f"cuda:{gpu_id}", torch.cuda.device_count()
            if gpu_id >= n_gpus:
                raise Errors.EL151(gpu_id=gpu_id, n=n_gpus)
        self.bilm = bilm.to(device).eval()
        self.bilm.token_cache.size = 16_384  # 8 MB at the small published size
        self.kept, self.computing = kept, computing
        self.bilm.set_precision(cast(Precision, computing.precision))

    def start_shard(self) -> None:
        """Empty the cache of token vectors where the vectors of a shard would depend on
        the one before."""
        if not self.computing.exact:
            self.bilm.token_cache.clear()

    @default_settings()
    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Return float32 (T, ..., D) for each sentence."""
        lengths = [len(sentence) for sentence in sentences]
        # In pages of their own: among the pages of the batches they would leave gaps.
        shape = sum(lengths), *self.kept.row_shape
        pages = mmap(-1, max(1, 4 * math.prod(shape)))
        rows = np.frombuffer(pages, np.float32, math.prod(shape)).reshape(shape)
        found = np.split(rows, np.cumsum(lengths))[:-1]
        batch_tokens = self.computing.batch_tokens
        with force(**dict(self.computing.kernels)):
            layers_of = self.bilm.encode_each(sentences, batch_tokens=batch_tokens)
            for s, layers in layers_of:
                found[s][:] = self.kept.combine(layers)
        return found
