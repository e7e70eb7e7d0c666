"""Documents are read by number or id, without copies, of unfinished folders too."""

import gzip

import numpy as np
import pytest
import spacy
import torch
from torch.utils.data import DataLoader

from spacy_elmo import embed
from spacy_elmo.embed import run

from .corpora import (
    SMALL,
    embed_files,
    lines,
    make_plan,
    shards,
    write_jsonl,
    write_lines,
)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    records = [{"text": line, "id": f"id {i}"} for i, line in enumerate(lines())]
    return embed_files(folder, [write_jsonl(folder / "a.jsonl", records)])


def test_documents_by_number_and_id(output):
    corpus = embed.open(output)
    assert len(corpus) == 60 == len(list(corpus))
    assert corpus[-1].id == corpus[59].id == "id 59"
    assert corpus["id 31"].tokens == corpus[31].tokens
    assert corpus.n_tokens == sum(document.n_tokens for document in corpus)
    with pytest.raises(KeyError, match="EL213"):
        corpus["id 60"]
    for number in (60, -61):
        with pytest.raises(IndexError):
            corpus[number]


def test_an_id_of_several_documents(tmp_path):
    records = [{"text": "One.", "id": "x"}, {"text": "Two.", "id": "y"}] * 2
    path = write_jsonl(tmp_path / "a.jsonl", [*records, {"text": "Z.", "id": "z"}])
    corpus = embed.open(embed_files(tmp_path, [path]))
    assert corpus["z"].tokens == corpus[4].tokens
    with pytest.raises(KeyError, match=r"EL213.*2 documents"):
        corpus["x"]


@pytest.mark.parametrize(
    ("options", "found", "has_tokens", "has_sentences"),
    [
        ({"pool": "sentence"}, "one vector of each sentence", False, True),
        ({"pool": "doc"}, "one vector of each document", False, False),
        ({"layers": "all"}, "3 layers of each token", True, True),
    ],
)
def test_rows_that_are_no_vectors_of_tokens(
    tmp_path, options, found, has_tokens, has_sentences
):
    text = write_lines(tmp_path / "a.txt", 1)
    corpus = embed.open(embed_files(tmp_path, [text], **options))
    asked = {
        "tokens": (lambda: corpus[0].tokens, has_tokens),
        "offsets": (lambda: corpus[0].offsets, has_tokens),
        "sentences": (lambda: list(corpus[0].sentences), has_sentences),
        "tensor": (lambda: corpus.set_tensor(spacy.blank("xx")(lines(1)[0]), 0), False),
    }
    for read, is_there in asked.values():
        if is_there:
            read()
        else:
            with pytest.raises(ValueError, match=f"EL218.* has {found}") as error:
                read()
            assert all((option in str(error.value)) for option in options)


def test_vectors_are_not_copied(output):
    corpus = embed.open(output)
    a, b = corpus[3].vectors, corpus[3].vectors
    assert np.shares_memory(a, b) and not a.flags.writeable
    first, *_ = corpus[3].sentences
    assert np.shares_memory(first.vectors, a)


@pytest.mark.parametrize("workers", [0, 1])
def test_torch_dataset(output, workers):
    dataset = embed.open(output).torch_dataset()
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context="spawn" if workers else None,
    )
    found = list(loader)
    assert len(found) == len(dataset) == 60
    assert torch.equal(found[7], torch.tensor(np.array(embed.open(output)[7].vectors)))


def test_an_unfinished_folder(tmp_path):
    text = write_lines(tmp_path / "a.txt")
    whole = [document.tokens for document in embed.open(embed_files(tmp_path, [text]))]
    output = tmp_path / "part"
    make_plan(str(tmp_path / "model"), [text], output, shard_mb=SMALL)
    assert len(embed.open(output)) == 0
    run(output, share=(2, 3))
    found = [document.tokens for document in embed.open(output)]
    assert 0 < len(found) < len(whole) and all(tokens in whole for tokens in found)


def test_documents_of_two_files_are_not_joined(tmp_path):
    """The first shard of a long line is not there yet, and before it is a packed file,
    whose shards are numbered in another way."""
    packed, long = tmp_path / "a.txt.gz", tmp_path / "b.txt"
    packed.write_bytes(gzip.compress("".join(f"{x}\n" for x in lines()).encode()))
    long.write_text(" ".join(f"Word {i}." for i in range(1500)))
    output = embed_files(tmp_path, [str(packed), str(long)])
    gone = tmp_path / "gone"
    gone.mkdir()
    for path in sorted((output / "shards").iterdir()):
        if "-" not in path.name or int(path.stem.split("-")[1]) > 1:
            path.rename(gone / path.name)
    packed_alone = [document.n_tokens for document in embed.open(output)]
    (gone / "00000002.safetensors").rename(output / "shards" / "00000002.safetensors")
    found = [document.n_tokens for document in embed.open(output)]
    assert found[:-1] == packed_alone and len(packed_alone) > 1


@pytest.mark.parametrize("pool", ["token", "sentence", "doc"])
def test_documents_that_span_shards(tmp_path, pool):
    """A line of 15 KB in shards of 2 KB is one document, between two others."""
    long = " ".join(f"Word {i}." for i in range(1500))
    text = tmp_path / "a.txt"
    text.write_text(f"Before it.\n{long}\nAfter it.\n")
    output = embed_files(tmp_path, [str(text)], pool=pool)
    corpus = embed.open(output)
    assert len(corpus) == 3 and len(shards(output)) > 5
    document = corpus[1]
    assert len(document.pieces) > 5 and document.n_tokens == 4500
    assert corpus[2].id == f"0:{len('Before it.') + len(long) + 2}"
    expected = embed.open(
        embed_files(tmp_path / "one", [str(text)], shard_mb=1, pool="token")
    )
    if pool == "token":
        assert document.tokens == long.replace(".", " .").split()
        assert document.vectors.shape == (4500, 32)
    if pool == "doc":
        mean = expected[1].vectors.mean(axis=0, dtype=np.float64)
        assert document.vectors.shape == (32,)
        # The windows at the ends of the shards are others.
        assert np.abs(document.vectors - mean).max() < 0.01 * np.abs(mean).max()
        assert np.array_equal(
            corpus[0].vectors, corpus[0].pieces[0][0].vectors(0, 1)[0]
        )
    run(output)
    (output / "shards" / sorted(shards(output))[3]).unlink()
    assert len(embed.open(output)) == 4  # its end is a document of its own
