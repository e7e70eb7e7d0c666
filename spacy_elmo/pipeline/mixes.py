"""The mixes that the components of a pipeline have learned (paper, figure 2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spacy.language import Language

from ..errors import Errors
from ..files import new_figure, save_figure
from .listener import ElmoListener, nodes_of
from .tok2vec import OwnElmo


@dataclass(frozen=True)
class LearnedMix:
    """What one listener makes of the layers."""

    component: str  # its name
    place: int  # number of the listener in its component, from the input up
    kind: str | int  # as in `MixSettings.mix`
    gamma: float
    shares: list[float]  # of each layer, the token layer first
    layer_norm: bool  # whether each layer has mean 0 and variance 1 before


def learned_mixes(nlp: Language) -> list[LearnedMix]:
    """Return the mix of every listener, in the order of the pipeline.

    Raises:
        ValueError: [EL090] if there is none, [EL053] if one has no upstream.
    """
    found = []
    for name, component in nlp.components:
        nodes = nodes_of(component)
        readers = [n for n in nodes if isinstance(n, (ElmoListener, OwnElmo))]
        for place, reader in enumerate(readers, start=1):
            if reader.has_param("gamma"):
                if not reader.n_layers:  # a fixed mix, and the layers are gone
                    upstream = getattr(reader, "upstream_name", "*")
                    raise Errors.EL053(upstream=upstream)
                row = [float(share) for share in reader.shares(reader.n_layers)]
                gamma = float(reader.get_param("gamma")[0])
                kind, norm = reader.settings.mix, reader.settings.layer_norm
                found.append(LearnedMix(name, place, kind, gamma, row, norm))
    if not found:
        raise Errors.EL090()
    return found


def draw(mixes: Sequence[LearnedMix], output: Path) -> None:
    """Stacked bars, one a listener. Raises as `new_figure` and `save_figure`."""
    figure = new_figure(1.6 + 1.1 * len(mixes), 3.6, output)
    axes = figure.subplots()
    names = [f"{mix.component} {mix.place}\ngamma {mix.gamma:.2f}" for mix in mixes]
    positions = range(len(mixes))
    for layer in range(max(len(mix.shares) for mix in mixes)):
        heights = [sum(mix.shares[layer : layer + 1]) for mix in mixes]  # 0 above
        below = [sum(mix.shares[:layer]) for mix in mixes]
        label = f"layer {layer}" if layer else "token layer"
        axes.bar(positions, heights, bottom=below, label=label, width=0.6)
    axes.set_xticks(positions, names)
    axes.set_ylabel("share of the layer")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    save_figure(figure, output)
