"""Reads sentences with the revision of the package that it can import, and answers with
the seconds that they took: a process of engine.py, for each line of JSON that comes."""

import json
import sys
import time
from functools import cache
from pathlib import Path

import spacy
import torch
from spacy.tokens import Doc
from spacy.training import Example

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


@cache
def pipeline(precision):
    """A sentencizer, elmo, and a tagger and an ner that listen, with random weights."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config={"model": {"precision": precision}})
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1"}
    tagger = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
    nlp.add_pipe("tagger", config={"model": tagger})
    ner = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 64,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": listener,
    }
    nlp.add_pipe("ner", config={"model": ner})
    example = {"words": ["a", "b"], "tags": ["X", "Y"], "entities": ["U-P", "U-Q"]}
    doc = Doc(nlp.vocab, words=example["words"])
    nlp.initialize(lambda: [Example.from_dict(doc, example)])
    return nlp


def pipe(precision, threads):
    """Return the seconds of nlp.pipe, with the words that it has read before."""
    torch.set_num_threads(threads)
    nlp = pipeline(precision)
    docs = [Doc(nlp.vocab, words=words) for words in SENTENCES]
    start = time.thread_time()
    for _ in nlp.pipe(docs):
        pass
    return time.thread_time() - start


def memory(model, precision):
    """Return the bytes that a first batch of 64 takes beside the weights."""
    import resource  # there is none on Windows

    torch.set_num_threads(1)
    bilm = load(model, precision, warm=False)
    if bilm is None:
        return None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bilm.encode(SENTENCES)
    return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


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


QUESTIONS = {"read": answer, "pipe": pipe, "memory": memory}

for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(QUESTIONS[asked.pop("question", "read")](**asked)), flush=True)
