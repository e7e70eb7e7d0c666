"""Whole training configurations: any of spaCy's components on one `elmo`."""

import warnings
from collections.abc import Sequence
from typing import Any

import spacy
from confection import Config
from spacy.language import Language
from spacy.util import combine_score_weights

from .. import models as shipped
from ..errors import Errors, Warnings
from .factory import component_config
from .settings import OLD_SETTINGS

Block = dict[str, Any]

EMBEDDING_WIDTH = 96  # of hash embeddings, as in spaCy's default pipelines
# Width and depth of the encoder: spaCy's default, and the one above ELMo's vectors.
# These know their context, so one wide layer is enough.
HASH_EMBED_CNN, ELMO = (96, 4), (256, 1)
# The budget of the tables in docs/guides/results.md: updates, evaluations on the
# development set, and the learning rate at its highest. In fine-tuning one more layer
# of the biLM learns after so many updates.
STEPS, EVALUATIONS, LEARN_RATE = 2000, 20, 0.004
UNFREEZE_EVERY = 200
# spaCy's other tokenizer for Korean, which splits at spaces and punctuation.
NO_MECAB = {"nlp": {"tokenizer": {"@tokenizers": "spacy.Tokenizer.v1"}}}
COMMENTS = {
    "[paths]": "Here, or on the command line: --paths.train corpus/train.spacy",
    "[components.elmo]": "The biLM, run once for all components that listen to it.\n"
    "frozen: it stays as it is, and only the mixes of its layers are trained. If it is "
    "not,\nit learns at the rate of [training.optimizer] times learn_rate_factor.",
    ".tok2vec]": "ELMo's vectors stand beside the component's own (at = \"input\"), "
    'beside what\nits encoder makes of them ("output"), or at both places.',
    ".tok2vec.embed.embed]": "The component's own vectors, which stand beside static "
    "ones of words.",
    ".tok2vec.elmo]": "Softmax weights and gamma of this component's own. mix: "
    "learned, average,\ntop, concat or the number of a layer; l2: draws weights "
    "towards the average.",
    "[training]": "The budget of the documented results. A larger corpus wants more "
    "updates,\nin max_steps and in total_steps of the learning rate.",
    "[training.before_update]": "The top layer of the biLM learns from the start, and "
    "the next one down\nfrom each of these steps on.",
    "[initialize.components.elmo]": "layer_cache: layers of sentences that were read "
    'are kept, in "memory" or in a file,\nso that only the first epoch computes them.',
    "[initialize.components.elmo.weights]": "Weights of the biLM; path = null takes "
    "those that [components.elmo]\nnames, or the model that ships for the language.",
}


def make_config(
    components: Sequence[str],
    *,
    lang: str = "en",
    weights: str | None = None,
    frozen: bool = True,
    places: Sequence[str] = ("input",),
    static: str | None = None,
    words: str | None = None,
    layer_cache: str | None = None,
    listener: Block | None = None,
    encoder: tuple[int, int] | None = None,
    steps: int | None = STEPS,
) -> str:
    """Return a configuration that `spacy train` takes as it is, with comments.

    Args:
        components: Factories whose model has a tok2vec; "sentencizer" among them stands
            before `elmo`, and sets the boundaries of sentences in training too.
        lang: Language of the pipeline.
        weights: Model folder, file or shipped name; None for the language's own.
        frozen: Whether the biLM is not trained.
        places: Where ELMo stands, "input", "output" or both; none for no ELMo.
        static: What `initialize.vectors` names.
        words: Model folder, file or shipped name whose vectors of words stand beside
            the task's own; None for none.
        layer_cache: As in `Elmo.initialize`; warned of, and left out, if not frozen.
        listener: More settings of `spacy-elmo.ElmoListener.v1`.
        encoder: Width and depth of the convolutions; None for those that go with ELMo,
            or are spaCy's.
        steps: Updates of the training; None for spaCy's own budget.

    Raises:
        ValueError: [EL081] if nothing ships for the language, [EL089] for other places,
            [EL091] for a component that can't listen, and as `weights.read_config`.
    """
    if not set(places) <= {"input", "output"}:
        raise Errors.EL089(found=",".join(places))
    at = "both" if len(set(places)) == 2 else "".join(set(places))
    nlp = spacy.blank(lang, config=NO_MECAB if lang == "ko" else {})
    settings: Block = {} if frozen else {"frozen": False}
    if at:  # with its sizes, which are then read nowhere else
        settings |= component_config(weights or shipped.folder(lang))
    if weights is not None:
        settings["weights"] = weights
    sentences = [name for name in components if name == "sentencizer"][:1]
    for name in sentences:
        nlp.add_pipe(name)
    if at:
        nlp.add_pipe("elmo", config=settings)
    for name in (name for name in components if name not in sentences):
        model = _model_of(nlp, name)
        block = _tok2vec(at, static is not None, listener or {}, encoder)
        if words is not None:
            embed = {"@architectures": "spacy-elmo.Words.v1", "weights": words}
            block["embed"] = {**embed, "embed": block["embed"]}
        tok2vec = {"tok2vec": block}
        nlp.add_pipe(name, config={"model": {**model, **tok2vec}})
    config = nlp.config.copy()
    if layer_cache is not None and not frozen:
        warnings.warn(Warnings.ELW24(name="elmo"), stacklevel=2)
        layer_cache = None
    if at:
        for name in OLD_SETTINGS:
            del config["components"]["elmo"][name]
        # Without a reader, initialising again would begin with fine-tuned weights.
        reader = {"@readers": "spacy-elmo.WeightsReader.v1", "path": None}
        elmo = {"weights": reader, "layer_cache": layer_cache}
        config["initialize"]["components"] = {"elmo": elmo}
    config["initialize"]["vectors"] = static
    config["nlp"]["batch_size"] = nlp.batch_size
    _set_training(config["training"], steps, sentences)
    if at and not frozen:
        n_layers = settings["model"]["n_layers"]
        config["training"]["before_update"] = {
            "@callbacks": "spacy-elmo.Unfreeze.v1",
            "steps": [UNFREEZE_EVERY * (i + 1) for i in range(n_layers)],
            "name": "elmo",
        }
    config["training"]["score_weights"] = _score_weights(nlp, untrained=sentences)
    return _commented(Config(config).to_str())


def _set_training(training: Block, steps: int | None, annotating: list[str]) -> None:
    training["annotating_components"] = annotating
    # Not what comes of this machine or of the pipeline's being built here.
    training["logger"] = {"@loggers": "spacy.ConsoleLogger.v1"}
    if steps is None:
        return
    training["max_steps"], training["patience"] = steps, 0
    training["eval_frequency"] = max(1, steps // EVALUATIONS)
    training["optimizer"]["learn_rate"] = {
        "@schedules": "warmup_linear.v1",
        "warmup_steps": max(1, steps // 10),
        # No variable: nlp.create_optimizer of spaCy does not interpolate.
        "total_steps": steps,
        "initial_rate": LEARN_RATE,
    }


def _score_weights(nlp: Language, untrained: list[str]) -> dict[str, float | None]:
    """Return the weights of the training's score, without what is not trained: the
    scores of a rule would hide those of the components that learn."""
    weights: list[dict[str, float | None]] = []
    for name in nlp.pipe_names:  # those that are not trained stand before the others
        scores = nlp.get_pipe_meta(name).default_score_weights or {}
        weights.append(dict.fromkeys(scores) if name in untrained else scores)
    return combine_score_weights(weights)


def _model_of(nlp: Language, name: str) -> Block:
    if not nlp.has_factory(name):
        problem = "there is no such component"
    elif name == "elmo":
        problem = "it is added by itself, before all other components"
    else:
        config = nlp.get_factory_meta(name).default_config or {}
        model = config.get("model") or {}
        if "tok2vec" in model:
            return dict(model)
        problem = "its model has no tok2vec"
    raise Errors.EL091(name=name, problem=problem)


def _tok2vec(
    at: str, static: bool, listener: Block, encoder: tuple[int, int] | None
) -> Block:
    reads_elmo = at in ("input", "both")
    width, depth = encoder or (ELMO if reads_elmo else HASH_EMBED_CNN)
    own = {
        "embed": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": EMBEDDING_WIDTH if reads_elmo else width,
            "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
            "rows": [5000, 1000, 2500, 2500],
            "include_static_vectors": static,
        },
        "encode": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": width,
            "depth": depth,
            "window_size": 1,
            "maxout_pieces": 3,
        },
    }
    if not at:
        return {"@architectures": "spacy.Tok2Vec.v2", **own}
    mix = {"mix": "learned", "layer_norm": True, "dropout": 0.0, "l2": 0.001}
    elmo = {"@architectures": "spacy-elmo.ElmoListener.v1", **mix, **listener}
    encode = {"@architectures": "spacy-elmo.Encode.v1", "at": at, "width": width}
    return {**encode, **own, "elmo": elmo}


def _commented(text: str) -> str:
    lines = ["# A pipeline with ELMo, for 'python -m spacy train'.", ""]
    said = set()
    for line in text.splitlines():
        for mark, comment in COMMENTS.items():
            if mark not in said and line.startswith("[") and line.endswith(mark):
                said.add(mark)
                lines += [f"# {part}" for part in comment.split("\n")]
        lines.append(line)
    return "\n".join(lines) + "\n"
