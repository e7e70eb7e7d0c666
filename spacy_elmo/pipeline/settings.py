"""The settings of a component and of its listeners, with their defaults."""

from dataclasses import dataclass

from ..bilm import check_at_least
from ..errors import Errors

OLD_SETTINGS = ("learn_rate", "unfreeze_every")  # until version 0.4
MIXES = ("learned", "average", "top", "concat")


@dataclass(frozen=True)
class MixSettings:
    """How layers are mixed: the settings that listeners and `doc.tensor` share.

    Args:
        mix: "learned", "average", "top", "concat", or the number of a layer, 0 being
            the token layer.
        mix_weights: Softmax weights w of a learned mix, one a layer, to begin with;
            zeros, so equal shares, by default.
        layer_norm: Give each token's vector in each layer mean 0 and variance 1 before
            (paper, section 3.2).
        gamma: Scale of the mix, to begin with.

    Raises:
        ValueError: [EL085] for a setting that means nothing.
    """

    mix: str | int = "learned"
    mix_weights: list[float] | None = None
    layer_norm: bool = False
    gamma: float = 1.0

    def __post_init__(self) -> None:
        is_layer = isinstance(self.mix, int) and not isinstance(self.mix, bool)
        if not (is_layer or self.mix in MIXES):
            known = f"{', '.join(MIXES)}, nor the number of a layer"
            self._refuse(f"mix = {self.mix!r} is none of {known}")
        if self.mix_weights is not None and not self.is_weighted:
            self._refuse(f"mix_weights are of mix = 'learned', not of {self.mix!r}")
        weights = [] if self.mix_weights is None else self.mix_weights
        if not isinstance(weights, (list, tuple)) or not all(
            isinstance(weight, (int, float)) for weight in weights
        ):
            self._refuse(f"mix_weights = {weights!r} is no list of numbers")

    def _refuse(self, problem: str) -> None:
        raise Errors.EL085(problem=problem)

    @property
    def is_weighted(self) -> bool:
        """Whether the mix has softmax weights."""
        return self.mix == "learned"

    def width(self, n_layers: int, width: int) -> int:
        """Return the width of the mix of n_layers of a width. Raises ValueError [EL083]
        if it is of a layer that there is not."""
        if isinstance(self.mix, int) and not -n_layers <= self.mix < n_layers:
            raise Errors.EL083(layer=self.mix, last=n_layers - 1)
        return n_layers * width if self.mix == "concat" else width

    def first_weights(self, n_layers: int) -> list[float]:
        """Return the softmax weights that a mix of n_layers begins with. Raises
        ValueError [EL057] if mix_weights are not one a layer."""
        weights = self.mix_weights or [0.0] * n_layers
        if len(weights) != n_layers:
            found = len(weights)
            raise Errors.EL057(found=found, expected=n_layers)
        return list(weights)


@dataclass(frozen=True)
class ListenerSettings(MixSettings):
    """The settings of a mix that is trained.

    Args:
        dropout: On the mix, while training.
        l2: lambda of lambda * |w|^2, added to the loss at every backward pass (with
            spaCy's `accumulate_gradient` there are several an update), which draws a
            learned mix towards the average.
    """

    dropout: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dropout < 1:
            self._refuse(f"dropout = {self.dropout} is not from 0 to below 1")
        if self.l2 < 0:
            self._refuse(f"l2 = {self.l2} is below 0")


@dataclass(frozen=True)
class ElmoSettings(MixSettings):
    """What `[components.elmo]` holds beside the model.

    The settings of `MixSettings` are those of the component's own mix, `doc.tensor`.
    Training does not change it. Its mix is "average" by default, and mix_weights make
    that a weighted average. ("learned" is what version 0.2 called it.)

    Args:
        weights: Model folder or file in any format, or the name of a shipped model,
            that weights are loaded from at first use; a relative path is of the folder
            that the process works in when it is named. None for the biLM that ships for
            the language, or for weights that are loaded otherwise.
        frozen: Don't train the biLM. It is still initialised and loaded, and listeners
            still train their mixes. False fine-tunes it through the listeners.
        set_tensor: Set `doc.tensor`, which components that listen to a stock `tok2vec`
            read, too.
        max_layers_mb: Layers that wait for listeners are held up to this size; beyond
            it they are computed again when they are asked for.
        learn_rate_factor: The biLM, if it is not frozen, learns at the rate of
            [training.optimizer] times this factor. A small one keeps it from forgetting
            what it was trained on: where `init-config` has its highest rate, 0.004, the
            default makes 0.0003.
        similarity_hooks: Whether `similarity` of tokens, spans and Docs is that of
            their vectors in context (not of Docs that come back from other processes,
            which leave hooks behind).
        learn_rate: Of version 0.2, and `learn_rate_factor` now.
        unfreeze_every: Of version 0.2, and `spacy-elmo.Unfreeze.v1` now.

    Raises:
        ValueError: [EL085] for a mix that means nothing, [EL026] for a number below 0.
    """

    mix: str | int = "average"
    weights: str | None = None
    frozen: bool = True
    set_tensor: bool = True
    max_layers_mb: int = 1024
    learn_rate_factor: float = 0.075
    similarity_hooks: bool = False
    learn_rate: float | None = None
    unfreeze_every: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(
            0,
            max_layers_mb=self.max_layers_mb,
            learn_rate_factor=self.learn_rate_factor,
            learn_rate=self.learn_rate or 0,
            unfreeze_every=self.unfreeze_every or 0,
        )

    @property
    def is_weighted(self) -> bool:
        """Whether the mix has softmax weights."""
        is_average = self.mix == "average" and self.mix_weights is not None
        return is_average or self.mix == "learned"

    @property
    def has_old(self) -> bool:
        """Whether it has settings of fine-tuning that version 0.2 had."""
        return self.learn_rate is not None or self.unfreeze_every is not None
