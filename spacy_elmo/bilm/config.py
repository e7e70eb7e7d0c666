"""The sizes and switches of a biLM, with their defaults and bounds."""

import reprlib
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ..errors import Errors, one_line

# Upper bounds, far above every known model. A hostile configuration is refused before
# memory is taken, or a million layers are made.
MAX_SIZE = 10_000_000
MAX_LAYERS = 100
MAX_CHARACTERS = 10_000
MAX_NUMBER = 1e30

Size = Annotated[int, Field(ge=1, le=MAX_SIZE)]
Count = Annotated[int, Field(ge=0, le=MAX_SIZE)]
# An integer stays an integer: the fingerprint depends on the settings as they are
# stored.
Clip = Annotated[int | float, Field(gt=0, le=MAX_NUMBER)]
Bias = Annotated[int | float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Filter = Annotated[tuple[Size, Size], Field(strict=False)]
Filters = Annotated[tuple[Filter, ...], Field(strict=False)]
# Filters of the published English models: (width in characters, number of filters).
PUBLISHED_FILTERS: Filters = (
    (1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024),
)  # fmt: skip


def check_at_least(least: int, **settings: Any) -> None:
    """Raise ValueError [EL026] if a setting is not a number, or is below `least`."""
    for name, found in settings.items():
        if not (isinstance(found, (int, float)) and found >= least):
            values = {"name": name, "least": least, "found": found}
            raise Errors.EL026(**values)


class BiLMConfig(BaseModel):
    """The sizes of a biLM. The defaults are those of the published small English model.

    Raises:
        ValueError: [EL020] A setting is not known, is out of bounds, or does not fit
            another.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    # The LSTM layers
    hidden_dim: Size = 1024  # cells of a direction (C)
    projection_dim: Size = 128  # width of a direction's output (H); vectors are 2H wide
    n_layers: Annotated[int, Field(ge=1, le=MAX_LAYERS)] = 2  # of a direction (L)

    # The token encoder: a word embedding, a char-CNN, or both
    n_words: Count = 0  # rows of the word embedding; 0 for none
    word_dim: Count = 0  # its width beside a char-CNN; 0 if it replaces the char-CNN
    # Characters are bytes of UTF-8, or code points of the model's alphabet.
    characters: Literal["bytes", "alphabet"] = "bytes"
    char_dim: Size = 16  # width of the character embedding (d)
    filters: Filters = PUBLISHED_FILTERS  # (width in characters, number of filters)
    activation: Literal["relu", "tanh"] = "relu"  # of the filters
    n_highway: Annotated[int, Field(ge=0, le=MAX_LAYERS)] = 1
    # Characters of a word that are read, with the marks of its begin and its end
    max_characters: Annotated[int, Field(ge=3, le=MAX_CHARACTERS)] = 50
    # Rows of the character embedding, with row 0 for "no token here"
    n_characters: Annotated[int, Field(ge=7, le=MAX_SIZE)] = 262

    token_projection: bool = True  # without it the filters sum to projection_dim
    lstm_projection: bool = True  # without it hidden_dim is projection_dim
    skip_connections: bool = True  # residual, around all layers but the first
    cell_clip: Clip | None = 3.0  # bound of the cells; null for none
    proj_clip: Clip | None = 3.0  # bound of the projected state; null for none
    forget_bias: Bias = 1.0  # constant of the forget gate, beside the stored bias

    def __init__(self, /, **sizes: Any) -> None:
        # Pydantic keeps every unknown setting and every bad filter of a hostile file.
        known = type(self).model_fields
        if unknown := [name for name in sizes if name not in known]:
            shown = f"{reprlib.repr(unknown[0])}; there are {', '.join(known)}"
            raise Errors.EL020(problem=f"unknown setting {shown}")
        try:
            super().__init__(**sizes)
        except ValidationError as error:
            raise Errors.EL020(problem=one_line(error)) from error

    @field_validator("filters", mode="before")
    @classmethod
    def _check_number(cls, filters: Any) -> Any:
        if isinstance(filters, (list, tuple)) and len(filters) > MAX_LAYERS:
            raise ValueError(f"must be 1 to {MAX_LAYERS} pairs")
        return filters

    @model_validator(mode="after")
    def _check_characters(self) -> "BiLMConfig":
        if self.characters == "bytes" and self.n_characters < 262:
            raise ValueError("n_characters must be at least 262 for bytes")
        if self.has_characters:
            if not self.filters:
                raise ValueError(f"filters must be 1 to {MAX_LAYERS} pairs")
            if max(width for width, _ in self.filters) > self.max_characters:
                raise ValueError("a filter is wider than max_characters")
        return self

    @model_validator(mode="after")
    def _check_widths(self) -> "BiLMConfig":
        H = self.projection_dim
        if self.word_dim and not (self.n_words and self.token_projection):
            raise ValueError("word_dim needs n_words and a token projection")
        if not self.lstm_projection and self.hidden_dim != H:
            raise ValueError(
                f"without an LSTM projection hidden_dim ({self.hidden_dim}) must equal "
                f"projection_dim ({H}), or layers differ in width"
            )
        if self.has_characters and not self.token_projection and self.n_filters != H:
            raise ValueError(
                f"without a token projection the filters ({self.n_filters}) must sum "
                f"to projection_dim ({H})"
            )
        return self

    @property
    def has_characters(self) -> bool:
        """Whether the model reads the characters of words."""
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
        """Return all settings in types that JSON has."""
        return {**self.model_dump(), "filters": [list(pair) for pair in self.filters]}

    @classmethod
    def from_dict(cls, sizes: dict[str, Any]) -> "BiLMConfig":
        """Return the configuration with these settings. Raises as `BiLMConfig`."""
        return cls(**sizes)


# The published English models by their usual names.
PUBLISHED = {
    "small": BiLMConfig(),
    "medium": BiLMConfig(hidden_dim=2048, projection_dim=256),
    "original": BiLMConfig(hidden_dim=4096, projection_dim=512, n_highway=2),
}
