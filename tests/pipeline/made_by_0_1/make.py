"""Write the files of this folder. Run with version 0.1.0 installed, from its clone:

python make.py FOLDER
"""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import spacy
import torch
from spacy.training import Example
from spacy_elmo.thinc_layers.cached import context_of
from spacy_elmo.thinc_layers.encoder import shim_of

from spacy_elmo.bilm import vocab_cache
from spacy_elmo.bilm.bilm import BiLM
from spacy_elmo.bilm.config import BiLMConfig

LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
CONFIG = BiLMConfig(
    hidden_dim=16,
    projection_dim=16,
    char_dim=4,
    filters=((1, 16), (2, 16)),
    n_highway=1,
    cell_clip=0.4,
    proj_clip=0.3,
)
TEXTS = [
    ("I like London", ["P", "V", "N"], ["O", "O", "U-LOC"]),
    ("She hates Paris now", ["P", "V", "N", "A"], ["O", "O", "U-LOC", "O"]),
    ("We saw Kim", ["P", "V", "N"], ["O", "O", "U-PER"]),
]
READ = ["I like Paris now", "가나 saw  Kim \n again", "", "We", "x" * 60 + " hates"]


def pipeline():
    nlp = spacy.blank("xx")
    sizes = {"@architectures": "spacy-elmo.BiLM.v1", **CONFIG.to_dict()}
    elmo = nlp.add_pipe(
        "elmo",
        config={"model": sizes, "mix_weights": [0.5, -0.5, 1.0], "gamma": 0.75},
    )
    shim_of(elmo.model).set_weights(BiLM.random(CONFIG, seed=3), "fixture")
    tagger = {"@architectures": "spacy.Tagger.v2"}
    mix = {"layer_norm": True, "l2": 0.001}
    nlp.add_pipe("tagger", config={"model": {**tagger, "tok2vec": {**LISTENER, **mix}}})
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
    return nlp


def trained(nlp):
    spacy.util.fix_random_seed(0)
    batch = [
        Example.from_dict(nlp.make_doc(text), {"tags": tags, "entities": entities})
        for text, tags, entities in TEXTS
    ]
    optimizer = nlp.initialize(lambda: batch)
    optimizer.learn_rate = 0.02
    for _ in range(15):
        nlp.update(batch, sgd=optimizer)
    return nlp


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    folder.mkdir(exist_ok=True)
    nlp = trained(pipeline())
    nlp.to_disk(folder / "pipeline")
    nlp = spacy.load(folder / "pipeline")
    arrays = {}
    for i, text in enumerate(READ):
        doc = nlp(text)
        arrays[f"tensor{i}"] = doc.tensor
        arrays[f"layers{i}"] = doc._.elmo.layers
        arrays[f"tags{i}"] = nlp.get_pipe("tagger").predict([doc])[0]
        arrays[f"entities{i}"] = doc.to_array(["ENT_TYPE", "ENT_IOB"])
        if len(doc):
            scores = nlp.get_pipe("tagger").model.predict([doc])[0]
            tok2vec = nlp.get_pipe("ner").model.get_ref("tok2vec").predict([doc])
            arrays[f"scores{i}"] = np.asarray(scores)
            arrays[f"tok2vec{i}"] = np.asarray(tok2vec)
    np.savez_compressed(folder / "expected.npz", **arrays)

    elmo = nlp.get_pipe("elmo")
    elmo.use_layer_cache(folder / "layers")
    sentences = [[t.text for t in nlp.make_doc(text)] for text in READ[:1]]
    for text in READ[:1]:
        nlp(text)
    elmo.layer_cache.close()
    data = (folder / "layers").read_bytes()
    (folder / "layers.gz").write_bytes(gzip.compress(data, 9, mtime=0))
    (folder / "layers").unlink()
    said = {"sentences": sentences, "context": context_of(shim_of(elmo.model))}

    bilm = elmo.bilm
    bilm.save(folder / "model")
    vocab_cache.make(BiLM.load(folder / "model"), ["We", "saw"], folder / "model")
    elmo.load_weights(folder / "model")
    data = gzip.compress(elmo.to_bytes(), 9, mtime=0)
    (folder / "elmo_with_vocab_cache.gz").write_bytes(data)
    for path in (folder / "model").iterdir():
        path.unlink()
    (folder / "model").rmdir()
    said["version"] = "0.1.0"
    (folder / "made_by.json").write_text(json.dumps(said, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
