"""Write the files of this folder. Run with revision 76d3c6b of spacy-elmo installed:

    OMP_NUM_THREADS=1 python make.py    (in an empty folder)

weights/NAME                    biLMs in the format of this package
pipeline                        elmo, and a tagger and an ner that listen to it
layers.gz                       a layer cache with one sentence
prepared                        text as `prepare` writes it
adaptive_muon, sampled_adam     runs that were stopped after 34 of 69 steps
embed                           vectors of text.txt, of which half the shards are there
embed_parquet, embed_hdf5       the same vectors as float16 in other formats
expected.npz                    the vectors of all of these
NAME.expected.safetensors       the weights that a run ends with undisturbed
"""

import gzip
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np
import spacy
import torch
from safetensors.torch import load_file, save_file
from spacy.tokenizer import Tokenizer
from spacy.training import Example
from spacy_elmo.component.layer_cache import context_of
from spacy_elmo.layers.encoder import shim_of
from spacy_elmo.pretrain.config_file import read_config
from spacy_elmo.pretrain.stop import Stopped
from spacy_elmo.text.prepare import Request, prepare

from spacy_elmo import embed
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.pretrain import loop

SIZES = BiLMConfig(
    hidden_dim=12,
    projection_dim=6,
    char_dim=4,
    filters=((1, 4), (2, 5)),
    n_highway=1,
    cell_clip=0.4,
    proj_clip=0.3,
)
# Multiples of 16: a sentence has the same bits in any batch.
EXACT = BiLMConfig(
    hidden_dim=16, projection_dim=16, char_dim=16, filters=((1, 16),), n_layers=1
)
SENTENCES = [["The", "cat", "sat"], ["고양이", "가", "잔다", "."]]
TEXTS = [
    ("I like London", ["P", "V", "N"], ["O", "O", "U-LOC"]),
    ("She hates Paris now", ["P", "V", "N", "A"], ["O", "O", "U-LOC", "O"]),
    ("We saw Kim", ["P", "V", "N"], ["O", "O", "U-PER"]),
]
READ = ["I like Paris now", "가나 saw  Kim \n again", "", "We", "x" * 60 + " hates"]
LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
RUN = """\
[text]
train = ["{train}"]
dev = ["{dev}"]
tokenizer = "whitespace"

[vocab]
size = 40

[model]
hidden_dim = 6
projection_dim = 4
char_dim = 2
filters = [[1, 2], [2, 2]]
n_highway = 1

[training]
batch_size = 4
unroll_steps = 6
epochs = 3
eval_every = 20
save_every = 10
log_every = 5
threads = 1
device = "cpu"
"""
RUNS = {
    "adaptive_muon": """
[training.objective]
@objectives = "spacy-elmo.AdaptiveSoftmax.v1"
cutoffs = [5]

[training.optimizer]
@optimizers = "spacy-elmo.Muon.v1"
learn_rate = 0.01
""",
    "sampled_adam": """
[training.objective]
@objectives = "spacy-elmo.SampledSoftmax.v1"
samples = 5

[training.optimizer]
@optimizers = "spacy-elmo.Adam.v1"
learn_rate = 0.01

[training.schedule]
@schedules = "spacy-elmo.WarmupStableDecay.v1"
warmup_steps = 5
decay_steps = 20
""",
}
STOP_AT = 33


def make_weights(expected):
    BiLM.random(SIZES, seed=3).save("weights/float32")
    BiLM.random(EXACT, seed=3).save("weights/float16", dtype="float16")
    for name in ("float32", "float16"):
        layers = BiLM.load(Path("weights") / name).encode(SENTENCES)
        expected |= {f"{name}_{i}": array for i, array in enumerate(layers)}


def make_pipeline(expected):
    nlp = spacy.blank("xx")
    nlp.tokenizer = Tokenizer(nlp.vocab)  # white space: few bytes
    sizes = {"@architectures": "spacy-elmo.BiLM.v1", **SIZES.to_dict()}
    own = {"mix": "learned", "mix_weights": [0.5, -0.5, 1.0], "gamma": 0.75}
    elmo = nlp.add_pipe("elmo", config={"model": sizes, **own})
    elmo.load_weights("weights/float32")
    tok2vec = {**LISTENER, "layer_norm": True, "l2": 0.001}
    tagger = {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
    nlp.add_pipe("tagger", config={"model": tagger})
    encode = {
        "@architectures": "spacy-elmo.Encode.v1",
        "at": "both",
        "width": 8,
        "embed": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": 8,
            "attrs": ["NORM"],
            "rows": [50],
            "include_static_vectors": False,
        },
        "encode": {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": 8,
            "depth": 1,
            "window_size": 1,
            "maxout_pieces": 2,
        },
        "elmo": {**LISTENER, "dropout": 0.1},
    }
    ner = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 8,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": encode,
    }
    nlp.add_pipe("ner", config={"model": ner})
    spacy.util.fix_random_seed(0)
    batch = [
        Example.from_dict(nlp.make_doc(text), {"tags": tags, "entities": entities})
        for text, tags, entities in TEXTS
    ]
    optimizer = nlp.initialize(lambda: batch)
    optimizer.learn_rate = 0.02
    for _ in range(15):
        nlp.update(batch, sgd=optimizer)
    nlp.to_disk("pipeline")

    nlp = spacy.load("pipeline")
    for i, text in enumerate(READ):
        doc = nlp(text)
        expected[f"tensor{i}"] = doc.tensor
        expected[f"layers{i}"] = doc._.elmo.layers
        expected[f"tags{i}"] = nlp.get_pipe("tagger").predict([doc])[0]
        expected[f"entities{i}"] = doc.to_array(["ENT_TYPE", "ENT_IOB"])
        if len(doc):
            tagger, ner = nlp.get_pipe("tagger"), nlp.get_pipe("ner")
            expected[f"scores{i}"] = np.asarray(tagger.model.predict([doc])[0])
            tok2vec = ner.model.get_ref("tok2vec").predict([doc])
            expected[f"tok2vec{i}"] = np.asarray(tok2vec)

    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache("layers")
    nlp(READ[0])
    elmo.layer_cache.close()
    Path("layers.gz").write_bytes(gzip.compress(Path("layers").read_bytes(), mtime=0))
    Path("layers").unlink()
    Path("context.txt").write_text(context_of(shim_of(elmo.model)), encoding="utf-8")


def make_runs():
    sentences = ["the cat sat on the mat", "a dog sat", "the end"] * 8
    Path("train.txt").write_text("\n".join(sentences * 4))
    Path("dev.txt").write_text("\n".join(sentences[:9]))
    for name in ("train", "dev"):
        request = Request(tokenizer="whitespace", vocab_size=40)
        where = Path("prepared") / name
        prepare([Path(f"{name}.txt")], where, request, progress=False)
    for name, blocks in RUNS.items():
        where = "prepared/{}" if name == "adaptive_muon" else "{}.txt"
        files = {key: where.format(key) for key in ("train", "dev")}
        Path(f"{name}.cfg").write_text(RUN.format(**files) + blocks)
        config = read_config(Path(f"{name}.cfg"))
        with tempfile.TemporaryDirectory() as folder:
            loop.pretrain(config, Path(folder))
            last = Path(folder) / "model-last"
            arrays = {
                f"{part}.{key}": array
                for part in ("weights", "softmax")
                for key, array in load_file(last / f"{part}.safetensors").items()
            }
        save_file(arrays, f"{name}.expected.safetensors")
        train_half(config, Path(name))
        shutil.rmtree(Path(name) / "model-last")


def train_half(config, output):
    real = loop.train_step

    def train_step(*args, step, **settings):
        if step == STOP_AT:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*args, step=step, **settings)

    loop.train_step = train_step
    try:
        loop.pretrain(config, output)
    except Stopped as stopped:
        print(stopped)
    loop.train_step = real


def make_vectors(expected):
    lines = [f"Line {i} is of two sentences. 고양이 number {i * 7}." for i in range(17)]
    Path("text.txt").write_text("".join(f"{line}\n" for line in lines))
    options = embed.Options(shard_mb=0.00025)
    plan, encoder = embed.make_plan("weights/float16", ["text.txt"], "embed", options)
    embed.run("embed", encoder=encoder, share=(1, 2))
    assert len(plan.jobs_left(Path("embed"))) == plan.n_jobs // 2
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree("embed", folder, dirs_exist_ok=True)
        embed.run(folder, encoder=encoder)
        documents = list(embed.open(folder))
        expected["embed"] = np.concatenate([document.vectors for document in documents])
        tokens = [document.tokens for document in documents]
    Path("tokens.json").write_text(json.dumps(tokens, ensure_ascii=False))
    for sink in ("parquet", "hdf5"):
        options = embed.Options(sink=sink, dtype="float16")
        embed.make_plan("weights/float16", ["text.txt"], f"embed_{sink}", options)
        embed.run(f"embed_{sink}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    arrays = {}
    make_weights(arrays)
    make_pipeline(arrays)
    make_runs()
    make_vectors(arrays)
    np.savez_compressed("expected.npz", **arrays)
