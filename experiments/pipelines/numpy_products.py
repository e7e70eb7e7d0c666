"""Matrix multiplications of a pipeline by NumPy. On processors with AVX-512 they take
half as long as by Thinc's choice for CPUs, BLIS. The wheels carry this file."""

from collections.abc import Callable

from spacy.language import Language
from spacy.util import registry
from thinc.api import Model, NumpyOps


@registry.callbacks("elmo-pipelines.NumpyProducts.v1")
def configure() -> Callable[[Language], Language]:
    """Return what sets it, for every component and for none that is on a GPU."""

    def use_numpy(nlp: Language) -> Language:
        ops = NumpyOps(use_blis=False)
        for _, component in nlp.components:
            model = getattr(component, "model", None)
            for node in model.walk() if isinstance(model, Model) else ():
                if type(node.ops) is NumpyOps:
                    node.ops = ops
        return nlp

    return use_numpy
