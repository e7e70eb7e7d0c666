"""All sizes and switches of a biLM, in one frozen dataclass."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from ..errors import Errors

Filters = tuple[tuple[int, int], ...]

# Filters of the published English models: (width in characters, number of filters).
PUBLISHED_FILTERS: Filters = (
    (1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024),
)  # fmt: skip

# Upper bounds, far above every known model: a hostile configuration is refused before
# memory, or a module for each of a million layers, is asked for.
MAX_SIZE = 10_000_000
MAX_LAYERS = 100
MAX_CHARACTERS = 10_000
_MOST = {
    "n_layers": MAX_LAYERS,
    "n_highway": MAX_LAYERS,
    "max_characters": MAX_CHARACTERS,
}


@dataclass(frozen=True)
class BiLMConfig:
    """Sizes of a biLM (defaults: the published small English model).

    hidden_dim: LSTM cell units a direction (C).
    projection_dim: width of a direction's output (H); vectors have 2H columns.
    n_layers: LSTM layers a direction (L).
    n_words: rows of a word-embedding input; 0 for none. word_dim: its width where it
        stands beside the char-CNN; 0 where it stands in its place.
    characters: "bytes" of UTF-8, or code points of an "alphabet" that is the model's.
    char_dim, filters, activation, n_highway: the char-CNN and its highway layers.
    token_projection: whether a projection follows the highway layers; without it the
        filters must sum to projection_dim.
    lstm_projection: whether cells are projected; without it hidden_dim must equal
        projection_dim.
    skip_connections: residual connection around every layer but the first.
    cell_clip, proj_clip: clips of cell and projection, None for none.
    forget_bias: constant added to the forget gate, not part of the stored bias.
    n_characters: rows of the character embedding, the absent row 0 included.
    """

    hidden_dim: int = 1024
    projection_dim: int = 128
    n_layers: int = 2
    n_words: int = 0
    word_dim: int = 0
    characters: Literal["bytes", "alphabet"] = "bytes"
    char_dim: int = 16
    filters: Filters = PUBLISHED_FILTERS
    activation: Literal["relu", "tanh"] = "relu"
    n_highway: int = 1
    max_characters: int = 50
    n_characters: int = 262
    token_projection: bool = True
    lstm_projection: bool = True
    skip_connections: bool = True
    cell_clip: float | None = 3.0
    proj_clip: float | None = 3.0
    forget_bias: float = 1.0

    def __post_init__(self) -> None:
        def check(condition: bool, problem: str) -> None:
            if not condition:
                raise ValueError(Errors.EL020.format(problem=problem))

        try:
            pairs = tuple((int(width), int(n)) for width, n in self.filters)
        except (TypeError, ValueError, OverflowError):
            check(
                False, f"filters must be (width, number) pairs, found {self.filters!r}"
            )
        object.__setattr__(self, "filters", pairs)
        for name in (
            "hidden_dim", "projection_dim", "n_layers", "n_words", "word_dim",
            "char_dim", "n_highway", "max_characters", "n_characters",
        ):  # fmt: skip
            value = getattr(self, name)
            least = 0 if name in ("n_words", "word_dim", "n_highway") else 1
            check(
                type(value) is int and least <= value <= _MOST.get(name, MAX_SIZE),
                f"{name} must be a whole number from {least} to "
                f"{_MOST.get(name, MAX_SIZE)}, found {value!r}",
            )
        for name in ("token_projection", "lstm_projection", "skip_connections"):
            value = getattr(self, name)
            check(type(value) is bool, f"{name} must be true or false, found {value!r}")
        for name in ("cell_clip", "proj_clip"):
            value = getattr(self, name)
            check(
                value is None or (isinstance(value, (int, float)) and value > 0),
                f"{name} must be a positive number or null, found {value!r}",
            )
        check(
            isinstance(self.forget_bias, (int, float)), "forget_bias must be a number"
        )
        check(
            self.activation in ("relu", "tanh"),
            f"activation must be 'relu' or 'tanh', found {self.activation!r}",
        )
        check(
            self.characters in ("bytes", "alphabet"),
            f"characters must be 'bytes' or 'alphabet', found {self.characters!r}",
        )
        least = 262 if self.characters == "bytes" else 7
        check(
            self.n_characters >= least,
            f"n_characters must be at least {least} (characters and marks)",
        )
        check(
            self.word_dim == 0 or (self.n_words > 0 and self.token_projection),
            "word_dim needs n_words and a token projection",
        )
        check(self.max_characters >= 3, "max_characters must be at least 3")
        check(
            self.lstm_projection or self.hidden_dim == self.projection_dim,
            f"without an LSTM projection hidden_dim ({self.hidden_dim}) must equal "
            f"projection_dim ({self.projection_dim}), or layers differ in width",
        )
        if self.has_characters:
            check(
                0 < len(pairs) <= MAX_LAYERS,
                f"filters must be 1 to {MAX_LAYERS} pairs, found {len(pairs)}",
            )
            for width, n in pairs:
                check(
                    1 <= width <= self.max_characters and 1 <= n <= MAX_SIZE,
                    f"filter ({width}, {n}) does not fit max_characters",
                )
            check(
                self.token_projection or self.n_filters == self.projection_dim,
                f"without a token projection the filters ({self.n_filters}) must "
                f"sum to projection_dim ({self.projection_dim})",
            )

    @property
    def has_characters(self) -> bool:
        """Whether tokens are read by their characters (too)."""
        return self.n_words == 0 or self.word_dim > 0

    @property
    def n_filters(self) -> int:
        """Width of the char-CNN's output (S)."""
        return sum(n for _, n in self.filters)

    @property
    def width(self) -> int:
        """Width of a layer's vectors: both directions side by side (2H)."""
        return 2 * self.projection_dim

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "filters": [list(pair) for pair in self.filters]}

    @classmethod
    def from_dict(cls, sizes: dict[str, Any]) -> "BiLMConfig":
        """Raises ValueError [EL020] on an unknown name or a size that can't be."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(sizes) - known)
        if unknown:
            problem = f"unknown setting {', '.join(map(repr, unknown))}"
            raise ValueError(Errors.EL020.format(problem=problem))
        return cls(**sizes)


# The published English models by their usual names.
PUBLISHED = {
    "small": BiLMConfig(),
    "medium": BiLMConfig(hidden_dim=2048, projection_dim=256),
    "original": BiLMConfig(hidden_dim=4096, projection_dim=512, n_highway=2),
}
