"""Training a biLM: corpora -> streams -> step -> models. START READING in loop.py.

config.py                    settings, and how they are read from files
start.py, memory.py          what a run is made of, and the memory it takes
loop.py                      the loop, and one step
workers.py                   the processes of a run
optimizers.py, schedules.py  by registered name
checkpoint.py                what a run resumes from, and whether it may
results.py, evaluation.py    the models it leaves, and how they are measured
loggers.py                   where its figures go
"""

from .config import PretrainConfig, read_config
from .corpora import prepared_folder
from .evaluation import Perplexity, perplexity
from .loggers import draw_curve
from .loop import Stopped, pretrain, train_step
from .model import LanguageModel
from .optimizers import OptimizerRecipe
from .schedules import Schedule

__all__ = [
    "LanguageModel", "OptimizerRecipe", "Perplexity", "PretrainConfig", "Schedule",
    "Stopped", "draw_curve", "perplexity", "prepared_folder", "pretrain", "read_config",
    "train_step",
]  # fmt: skip
