"""One step of training: an update from the next tokens of all streams.

The CPU never waits for a GPU. All copies go to it, by `to_device`: words, positions and
targets of the batch, the rows of a softmax that they use, and the rows whose targets
are in each cluster. One exception: where sparse gradients of several parts are joined,
the CPU waits for the number of their rows.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from ..bilm import BiLMState
from ..text import Batch
from .config import TrainingConfig
from .model import LanguageModel, on_device
from .optimizers import clip_gradients
from .workers import ALONE, Workers


def train_step(
    model: LanguageModel,
    optimizers: Sequence[Optimizer],
    batches: Sequence[Batch[np.ndarray]],
    states: list[BiLMState],
    training: TrainingConfig,
    *,
    step: int,
    workers: Workers = ALONE,
) -> tuple[Tensor, Tensor]:
    """Update a model from the mean loss over all targets of all processes.

    Args:
        model: The model to train.
        optimizers: Its optimizers, with their learning rates set.
        batches: Next tokens of the streams of this process, in parts that are computed
            one after the other. Their gradients are added up.
        states: State of each part, which is replaced by the state after the step.
        training: Seed, precision, clip_norm and softmax_first are used.
        step: Number of the step, which the random numbers depend on.
        workers: The processes of the run.

    Returns:
        The sum of -log p over this process's targets and the number of these, (2,) in
        float64, and the global norm of the gradient before it was clipped.
    """
    # One seed for each step of each process.
    seed = training.seed * 1_000_003 + step * 8_191 + workers.rank
    torch.manual_seed(seed % (1 << 63))
    targets = [
        np.concatenate([d.target_P for d in (b.forward, b.backward)]) for b in batches
    ]
    words_P = np.concatenate(targets)
    (n_targets,) = workers.sum([len(words_P)])
    model.softmax.begin_step(training.seed, step, workers.union(words_P))
    trained = model if step >= training.softmax_first else model.softmax
    device = model.bilm.device
    figures = torch.zeros(2, dtype=torch.float64, device=device)
    figures[1] += len(words_P)
    for part, numbers in enumerate(batches):
        batch = on_device(numbers, device)
        known = model.softmax.prepare(targets[part], device)
        with torch.autocast(
            device.type, torch.bfloat16, enabled=training.precision == "bfloat16"
        ):
            with torch.set_grad_enabled(trained is model):
                top_PH, states[part] = model.read(batch, states[part])
            log_p_P = model.log_p(top_PH, batch, known)
        loss = -log_p_P.sum()
        # Gradients are averaged over processes: the result is a mean over all targets.
        is_last = part == len(batches) - 1
        with workers.averaging(trained.parameters()) if is_last else nullcontext():
            (loss * (workers.size / max(1.0, n_targets))).backward()
        figures[0] += loss.detach().double()
    norm = clip_gradients(model.parameters(), training.clip_norm)
    for optimizer in optimizers:
        optimizer.step()
        # Gradients are not read any more, and take memory.
        optimizer.zero_grad(set_to_none=True)
    return figures, norm
