"""The settings of an `elmo` component, with their defaults."""

from dataclasses import dataclass

from ..bilm import check_at_least
from ..errors import Errors
from .mix import MixSettings


@dataclass(frozen=True)
class ElmoSettings(MixSettings):
    """What `[components.elmo]` holds beside the model.

    The settings of `MixSettings` are those of the component's own mix, `doc.tensor`.

    Args:
        weights: Model folder or file in any format, or the name of a shipped model,
            that weights are loaded from at first use; a relative path is of the folder
            that the process works in when it is named. The model has its sizes, unless
            its own differ from the default ones. None for the biLM that ships for the
            language, or for weights that are loaded otherwise.
        frozen: Don't train the biLM. It is still initialised and loaded, and listeners
            still train their mixes. False fine-tunes it through the listeners.
        set_tensor: Set `doc.tensor`, which components that listen to a stock `tok2vec`
            read, too.
        max_layers_mb: Layers that wait for listeners are held up to this size; beyond
            it they are computed again when they are asked for.
        learn_rate: Of the biLM, by an Adam of its own, if it is not frozen: its highest
            rate, which falls as that of the optimizer of the other components does.
            None for that optimizer.
        unfreeze_every: Updates after which one more layer of the biLM learns, the top
            one first; 0 for all from the start. With the rate, it keeps a biLM from
            forgetting what it was trained on.
        similarity_hooks: Whether `similarity` of tokens, spans and Docs is that of
            their vectors in context (not of Docs that come back from other processes,
            which leave hooks behind).

    Raises:
        ValueError: [EL085] for a mix that means nothing, [EL093] for similarity_hooks
            without a tensor, [EL026] for a number below 0.
    """

    weights: str | None = None
    frozen: bool = True
    set_tensor: bool = True
    max_layers_mb: int = 1024
    learn_rate: float | None = 3e-4
    unfreeze_every: int = 200
    similarity_hooks: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = {
            "max_layers_mb": self.max_layers_mb,
            "learn_rate": self.learn_rate or 0,
        }
        check_at_least(0, unfreeze_every=self.unfreeze_every, **sizes)
        if self.similarity_hooks and not self.set_tensor:
            raise Errors.EL093()
