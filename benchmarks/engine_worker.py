"""Reads sentences with the revision of the package that it can import, and answers with
the seconds that they took: a process of engine.py, for each line of JSON that comes."""

import json
import sys
import time
from functools import cache
from pathlib import Path

import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.config import PUBLISHED
from spacy_elmo.bilm.token_cache import TokenCache
from spacy_elmo.models import find

SENTENCES = json.loads(Path(sys.argv[1]).read_text())
LENGTH = 20  # of one sentence


@cache
def load(name, precision, warm):
    made = BiLM.random(PUBLISHED[name]) if name in PUBLISHED else BiLM.load(find(name))
    try:
        made.set_precision(precision)
    except ValueError:  # there is no such precision here
        return None
    made.token_cache = TokenCache(1 << 20 if warm else 0)
    return made


def answer(model, precision, sentences, warm, threads, times, passing=False):
    torch.set_num_threads(threads)
    bilm = load(model, precision, warm)
    if bilm is None:
        return None
    words = [word for sentence in SENTENCES for word in sentence]
    read = [words[:LENGTH]] if sentences == 1 else SENTENCES[:sentences]
    bilm.encode(read)
    clock = time.perf_counter if passing else time.thread_time
    start = clock()
    for _ in range(times):
        bilm.encode(read)
    return (clock() - start) / times


for line in sys.stdin:
    print(json.dumps(answer(**json.loads(line))), flush=True)
