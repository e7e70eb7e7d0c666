"""On a system without fork, links, locks and folders that can be synced, where no open
file can be replaced, everything is written and read as elsewhere (a stand-in)."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the stand-in asks Linux what is open"
)

MODEL = """
from spacy_elmo import BiLM
from tests.models import tiny_config

for format in ("spacy-elmo", "bilm-tf"):
    first = BiLM.random(tiny_config(), seed=1, vocab=["<S>", "</S>", "<UNK>", "a"])
    first.save(format, format=format)
    loaded = BiLM.load(format)
    loaded.save(format, format=format)  # over what it was read from
    second = BiLM.random(tiny_config(), seed=2)
    second.save(format, format=format)
    assert BiLM.load(format).fingerprint() == second.fingerprint()
    assert BiLM.load(format).fingerprint() != loaded.fingerprint()
"""
PIPELINE = """
import spacy
from tests.pipelines import add_elmo

nlp = spacy.blank("xx")
elmo = add_elmo(nlp)
elmo.use_layer_cache("layers.sqlite")
expected = nlp("a b c").tensor
for _ in range(2):
    nlp.to_disk("pipeline")
    nlp = spacy.load("pipeline")
    nlp.get_pipe("elmo").use_layer_cache("layers.sqlite")
    assert (nlp("a b c").tensor == expected).all()
"""
TRAINING = """
from pathlib import Path
from spacy_elmo.pretrain.loop import pretrain
from tests.pretrain.runs import config, write_text

write_text(Path())
for _ in range(2):  # the second resumes
    pretrain(config(Path()), Path("run"))
assert Path("run/checkpoint.safetensors").exists()
"""
PREPARED = """
from pathlib import Path
from spacy_elmo.text import Request, prepare
from spacy_elmo.text.shards import open_corpus

Path("text.txt").write_text("one two three\\n" * 9)
for n in (1, 2):
    request, text = Request(), Path("text")
    prepare([Path("text.txt")], text, request, overwrite=True, progress=False)
    assert open_corpus(text).n_tokens == 27
"""
VECTORS = """
from pathlib import Path
from spacy_elmo import embed
from tests.embed.corpora import embed_files, write_lines

embed_files(Path(), [write_lines(Path("text.txt"), 6)])
assert not embed.verify(Path("vectors")).problems
assert len(list(embed.open(Path("vectors")))) > 0
"""
TASKS = {
    "model": MODEL, "pipeline": PIPELINE, "training": TRAINING,
    "prepared text": PREPARED, "vectors": VECTORS,
}  # fmt: skip
SLOW = "training", "vectors"


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
        for name in TASKS
    ],
)
@pytest.mark.slow
def test_without_what_posix_has(task, tmp_path):
    code = f"import os; os.chdir({str(tmp_path)!r})\n{TASKS[task]}"
    command = [sys.executable, "-m", "tests.other_system", code]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
