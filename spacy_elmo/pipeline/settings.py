"""The settings of a component and of its listeners, with their defaults."""

from dataclasses import dataclass, field

from ..bilm import check_at_least
from ..errors import Errors

OLD_SETTINGS = ("learn_rate", "unfreeze_every")  # until version 0.4
MIXES = ("learned", "average", "top", "concat")


@dataclass(frozen=True)
class MixSettings:
    """How layers are mixed, for a listener or for `doc.tensor`.

    Args:
        mix: "learned", "average", "top", "concat", or the number of a layer, 0 being
            the token layer.
        mix_weights: First softmax weights w of a learned mix, one for each layer. By
            default they are zeros, which gives equal shares.
        layer_norm: Give each token's vector in each layer mean 0 and variance 1 before
            layers are mixed (Peters et al. 2018, section 3.2).
        gamma: First scale of the mix.

    Raises:
        ValueError: [EL085] for a setting that means nothing.
    """

    mix: str | int = "learned"
    # A list has no hash; equal settings have equal weights all the same.
    mix_weights: list[float] | None = field(default=None, hash=False)
    layer_norm: bool = False
    gamma: float = 1.0

    def __post_init__(self) -> None:
        is_layer = isinstance(self.mix, int) and not isinstance(self.mix, bool)
        if not (is_layer or self.mix in MIXES):
            known = f"{', '.join(MIXES)}, nor the number of a layer"
            self._refuse(f"mix = {self.mix!r} is none of {known}")
        if self.mix_weights is not None and not self.is_weighted:
            self._refuse(f"mix_weights need mix = 'learned', not {self.mix!r}")
        weights = [] if self.mix_weights is None else self.mix_weights
        if not isinstance(weights, (list, tuple)) or not all(
            isinstance(weight, (int, float)) for weight in weights
        ):
            self._refuse(f"mix_weights = {weights!r} is not a list of numbers")

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
        ValueError [EL085] if mix_weights are not one a layer."""
        weights = self.mix_weights or [0.0] * n_layers
        if len(weights) != n_layers:
            found = f"mix_weights has {len(weights)} values for {n_layers} layers"
            self._refuse(f"{found} (the token layer included)")
        return list(weights)


@dataclass(frozen=True)
class ListenerSettings(MixSettings):
    """The settings of a mix that is trained.

    Args:
        dropout: Dropout rate on the mix, while training.
        l2: Factor lambda of lambda * |w|^2, which every backward pass adds to the loss.
            It draws a learned mix towards the average. With `accumulate_gradient` of
            spaCy an update has several backward passes.
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
    """The settings of `[components.elmo]` beside the model.

    The settings of `MixSettings` are those of the component's own mix, `doc.tensor`.
    Training does not change it. Its mix is "average" by default, and mix_weights make
    that a weighted average. ("learned" is what version 0.2 called it.)

    Args:
        weights: Model folder or file in any format, or the name of a shipped model. The
            weights are loaded at first use. A relative path starts from the working
            folder at the time when it is named. None for the shipped biLM of the
            language, or for weights that are loaded otherwise.
        frozen: Don't train the biLM. It is still initialised and loaded, and listeners
            still train their mixes. False fine-tunes it through the listeners.
        set_tensor: Set `doc.tensor`. Components that listen to a stock `tok2vec` read
            it, too.
        max_layers_mb: Most megabytes of layers that are kept until all listeners have
            read them. Further layers are computed again when a listener needs them.
        learn_rate_factor: The biLM, if it is not frozen, learns at the rate of
            [training.optimizer] times this factor. A small one keeps it from forgetting
            what it was trained on: with the highest rate of `init-config`, 0.004, the
            default makes 0.0003.
        similarity_hooks: Let `similarity` of tokens, spans and Docs compare their
            vectors in context. Docs that come back from other processes lose the
            hooks.
        learn_rate: Of version 0.2; `learn_rate_factor` has taken its place.
        unfreeze_every: Of version 0.2; `spacy-elmo.Unfreeze.v1` has taken its place.

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
