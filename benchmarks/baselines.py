"""What else gives a token its vector: speeds to compare with.

spaCy's own tok2vec (HashEmbedCNN, 96 wide, 4 deep) reads a window of words; a small
BERT (6 layers, 384 wide; random weights, one piece a word, which flatters it) reads the
sentence. BERT is measured where `transformers` is installed.
"""

from collections.abc import Callable

import torch
from spacy.ml.models.tok2vec import build_hash_embed_cnn_tok2vec
from spacy.tokens import Doc
from spacy.vocab import Vocab

Sentences = list[list[str]]
Run = Callable[[], float]


def baselines(sentences: Sentences, batch_size: int) -> dict[str, Run]:
    """Each over all sentences; returns tokens."""
    runs = {"HashEmbedCNN 4x96": hash_embed_cnn(sentences, batch_size)}
    try:
        import transformers  # noqa: F401
    except ImportError:
        return runs
    return {**runs, "BERT 6x384": bert(sentences, batch_size)}


def hash_embed_cnn(sentences: Sentences, batch_size: int) -> Run:
    tok2vec = build_hash_embed_cnn_tok2vec(
        width=96,
        depth=4,
        embed_size=2000,
        window_size=1,
        maxout_pieces=3,
        subword_features=True,
        pretrained_vectors=None,
    )
    vocab = Vocab()
    docs = [Doc(vocab, words=words) for words in sentences]
    tok2vec.initialize(docs[:1])

    def run() -> float:
        for start in range(0, len(docs), batch_size):
            tok2vec.predict(docs[start : start + batch_size])
        return float(sum(map(len, docs)))

    return run


def bert(sentences: Sentences, batch_size: int) -> Run:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    model = BertModel(config).eval()
    lengths = [min(len(words) + 2, 512) for words in sentences]

    @torch.no_grad()
    def run() -> float:
        for start in range(0, len(lengths), batch_size):
            n = torch.tensor(lengths[start : start + batch_size])
            is_word = torch.arange(int(n.max())) < n[:, None]
            ids = torch.randint(1000, config.vocab_size, is_word.shape)
            model(input_ids=ids, attention_mask=is_word.long())
        return float(sum(lengths) - 2 * len(lengths))

    return run
