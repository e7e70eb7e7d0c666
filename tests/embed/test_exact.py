"""What is written is what `BiLM.encode` gives, to the last bit."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import spacy
from safetensors import safe_open
from spacy.tokens import DocBin

from spacy_elmo import BiLM, embed
from spacy_elmo.embed import run, verify
from spacy_elmo.embed.model import Computing
from spacy_elmo.models import MODELS, find
from spacy_elmo.text import Reader, Reading, describe, open_source

from .corpora import (
    SMALL,
    contents,
    embed_files,
    lines,
    make_plan,
    save_model,
    shards,
    write_jsonl,
    write_lines,
)


def bilm_of(folder):
    return BiLM.load(folder / "model")


def average(layers_LTD):
    total = layers_LTD[0] * np.float32(1 / len(layers_LTD))
    for layer_TD in layers_LTD[1:]:
        total += layer_TD * np.float32(1 / len(layers_LTD))
    return total


def test_vectors_are_those_of_encode(tmp_path):
    output = embed_files(tmp_path, [write_lines(tmp_path / "a.txt")])
    bilm, nlp = bilm_of(tmp_path), spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    corpus = embed.open(output)
    assert len(shards(output)) > 1 and len(corpus) == len(lines())
    for document, line in zip(corpus, lines()):
        doc = nlp(line)
        assert document.tokens == [token.text for token in doc]
        sentences = [[token.text for token in sent] for sent in doc.sents]
        expected = [average(layers) for layers in bilm.encode(sentences)]
        assert np.array_equal(document.vectors, np.concatenate(expected))
        found = list(document.sentences)
        assert [sentence.tokens for sentence in found] == sentences
        for sentence, vectors in zip(found, expected):
            assert np.array_equal(sentence.vectors, vectors)
        ((_, starts, ends),) = document.offsets
        assert [line[a:b] for a, b in zip(starts, ends)] == document.tokens


def test_sentences_end_as_spacys_sentencizer_says(tmp_path):
    pieces = ["Hello", "U.S.", "...", *'.!?。।‽)("“”,', " ", "\u3000", "\t", "don't"]
    draw = random.Random(0)
    texts = [
        "x" + "".join(draw.choice(pieces) + draw.choice(["", " "]) for _ in range(30))
        for _ in range(100)
    ]
    text = tmp_path / "a.txt"
    text.write_text("\n".join(texts), encoding="utf-8")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    for document, doc in zip(
        embed.open(embed_files(tmp_path, [text])), nlp.pipe(texts)
    ):
        sents = [[t.text for t in sent if not t.is_space] for sent in doc.sents]
        assert [s.tokens for s in document.sentences] == [
            sent for sent in sents if sent
        ]


@pytest.mark.parametrize(
    ("layers", "chosen"), [("all", [0, 1, 2]), ("0,2", [0, 2]), ("top", 2), ("1", 1)]
)
def test_layers_side_by_side(tmp_path, layers, chosen):
    output = embed_files(tmp_path, [write_lines(tmp_path / "a.txt", 9)], layers=layers)
    bilm = bilm_of(tmp_path)
    for sentence in embed.open(output).sentences():
        (expected,) = bilm.encode([sentence.tokens])
        expected = expected[chosen]
        if isinstance(chosen, list):
            expected = expected.swapaxes(0, 1)
        assert np.array_equal(sentence.vectors, expected)


def test_shards_depend_on_the_plan_alone(tmp_path):
    """Whatever order jobs are done in, by however many, after whatever was before."""
    text = write_lines(tmp_path / "a.txt")
    expected = shards(embed_files(tmp_path, [text]))
    model, again = str(tmp_path / "model"), tmp_path / "again"
    _, encoder = make_plan(model, [text], again, shard_mb=SMALL)
    for part in random.Random(0).sample(range(1, 4), 3):
        run(again, encoder=encoder, share=(part, 3))
        done = shards(again)
        assert done.items() <= expected.items()
    assert shards(again) == expected
    path = again / "shards" / min(expected)
    path.unlink()
    run(again)
    assert contents(again)[f"shards/{path.name}"] == expected[path.name]


def test_a_model_of_any_size_is_deterministic(tmp_path):
    """Also one whose sizes are no multiples of a vector of the processor."""
    save_model(tmp_path / "model", hidden_dim=20, projection_dim=7)
    output = embed_files(tmp_path, [write_lines(tmp_path / "a.txt")])
    expected = shards(output)
    for name in sorted(expected)[::2]:
        (output / "shards" / name).unlink()
    run(output)
    assert shards(output) == expected
    assert verify(output, full=True).problems == []


def test_the_file_is_plain_safetensors(tmp_path):
    output = embed_files(tmp_path, [write_lines(tmp_path / "a.txt", 5)], shard_mb=1)
    (path,) = (output / "shards").iterdir()
    (document, *_) = embed.open(output)
    with safe_open(path, "numpy") as file:
        assert {"vectors", "token_starts", "document_ids"} <= set(file.keys())
        part = file.get_slice("vectors")[: document.n_tokens]
        assert np.array_equal(part, document.vectors)
        assert json.loads(file.metadata()["spacy_elmo"])["shard"] == path.name


def test_json_lines(tmp_path):
    records = [
        {"text": "A text. Of two sentences.", "id": "first"},
        {"tokens": ["tokens", "as", "they", "are"], "id": 2},
        {"tokens": [["two", "sentences"], [], ["of tokens"]]},
        {"text": "", "id": "empty"},
        {"text": "half a character: \ud83d"},
    ]
    output = embed_files(tmp_path, [write_jsonl(tmp_path / "a.jsonl", records)])
    corpus = embed.open(output)
    found = [(document.id, document.tokens) for document in corpus]
    start = len(json.dumps(records[0])) + len(json.dumps(records[1])) + 2
    assert found[:4] == [
        ("first", ["A", "text", ".", "Of", "two", "sentences", "."]),
        ("2", ["tokens", "as", "they", "are"]),
        (f"0:{start}", ["two", "sentences", "of tokens"]),
        ("empty", []),
    ]
    assert [len(s.tokens) for s in corpus["first"].sentences] == [3, 4]
    assert corpus["empty"].vectors.shape == (0, 32)


def test_fields_of_json_lines_with_other_names(tmp_path):
    records = [
        {"key": "k", "body": "Named fields.", "tokens": ["not", "this"]},
        {"key": "l", "words": [["two"], ["sentences"]], "tokens": ["nor", "this"]},
    ]
    other = write_jsonl(tmp_path / "b.jsonl", records)
    fields = Reading(text_field="body", id_field="key", tokens_field="words")
    corpus = embed.open(embed_files(tmp_path, [other], reading=fields))
    assert corpus["k"].tokens == ["Named", "fields", "."]
    assert [s.tokens for s in corpus["l"].sentences] == [["two"], ["sentences"]]


def test_conllu(tmp_path):
    text = (
        "# sent_id = s-1\n# text = Don't go.\n1-2\tDon't\t_\n1\tDo\t_\tSpaceAfter=No\n"
        "2\tn't\t_\t_\n3\tgo\t_\tSpaceAfter=No\n4\t.\t_\t_\n5.1\tempty\t_\t_\n\n"
        "1\tNew York\t_\t_\n"
    )
    (tmp_path / "a.conllu").write_text(text)
    corpus = embed.open(embed_files(tmp_path, [str(tmp_path / "a.conllu")]))
    assert [document.tokens for document in corpus] == [
        ["Do", "n't", "go", "."],
        ["New York"],
    ]
    assert corpus[0].id == "s-1"
    ((_, starts, ends),) = corpus[0].offsets
    assert ["Don't go."[a:b] for a, b in zip(starts, ends)] == corpus[0].tokens


def test_docs_and_their_tensor(tmp_path):
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    docs = [nlp(f"  Doc {i}  has white space. And two sentences.\n") for i in range(9)]
    DocBin(docs=docs).to_disk(tmp_path / "a.spacy")
    corpus = embed.open(embed_files(tmp_path, [str(tmp_path / "a.spacy")]))
    assert len(corpus) == 9
    for number, doc in enumerate(docs):
        corpus.set_tensor(doc, number)
        words = [not token.is_space for token in doc]
        assert np.array_equal(doc.tensor[words], corpus[number].vectors)
        assert not doc.tensor[~np.array(words)].any()
    with pytest.raises(ValueError, match="EL216"):
        corpus.set_tensor(docs[0], 1)


def test_a_pipeline_sets_the_sentences(tmp_path):
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer", config={"punct_chars": [","]})
    nlp.to_disk(tmp_path / "pipeline")
    text = tmp_path / "a.txt"
    text.write_text("One, two. Three, four.\n")
    reading = Reading(pipeline=str(tmp_path / "pipeline"))
    output = embed_files(tmp_path, [str(text)], reading=reading)
    found = [sentence.tokens for sentence in embed.open(output).sentences()]
    assert found == [["One", ","], ["two", ".", "Three", ","], ["four", "."]]


def test_a_pipeline_that_was_changed_is_not_used(tmp_path):
    """A folder would hold two ways to tokenise."""
    nlp = spacy.blank("xx")
    sentencizer = nlp.add_pipe("sentencizer", config={"punct_chars": [","]})
    nlp.to_disk(tmp_path / "pipeline")
    text = write_lines(tmp_path / "a.txt")
    reading = Reading(pipeline=str(tmp_path / "pipeline"))
    output = embed_files(tmp_path, [text], reading=reading)
    before = shards(output)
    sentencizer.punct_chars = {"."}
    nlp.to_disk(tmp_path / "pipeline")
    min((output / "shards").iterdir()).unlink()
    for use in (run, verify):
        with pytest.raises(ValueError, match=r"EL209.*pipeline"):
            use(output)
    sentencizer.punct_chars = {","}
    nlp.to_disk(tmp_path / "pipeline")
    run(output)
    assert shards(output) == before


@pytest.mark.slow
def test_long_documents_are_read_in_pieces(tmp_path):
    """Every token is there once, in its place."""
    words = [f"word{n}" for n in range(60_000)]
    text = {"text": " ".join(words), "id": "long"}
    path = write_jsonl(tmp_path / "a.jsonl", [text, {"text": "short", "id": "short"}])
    output = embed_files(tmp_path, [path], shard_mb=4, pool="doc")
    corpus = embed.open(output)
    assert len(corpus) == 2
    parts = list(
        Reader(Reading()).documents(
            open_source(describe(Path(path)), 1 << 16), 0, 1 << 30
        )
    )
    assert [part.begins for part in parts] == [True, *[False] * (len(parts) - 2), True]
    assert len(parts) > 4
    found = [
        (token, start)
        for part in parts[:-1]
        for sentence in part.sentences
        for token, start in zip(sentence.tokens, sentence.starts)
    ]
    assert [token for token, _ in found] == words
    assert all(text["text"].startswith(token, start) for token, start in found)


@pytest.mark.parametrize(
    ("tokenizer", "sentences"),
    [
        ("whitespace", ["Don't split this .", "Nor that. Ever ."]),
        ("spacy", ["Do n't split this .", "Nor that .", "Ever ."]),
    ],
)
def test_tokens_and_sentences_of_a_line(tmp_path, tokenizer, sentences):
    text = tmp_path / "a.txt"
    text.write_text("Don't   split this . Nor that. Ever .\n")
    line = text.read_text()
    for split, expected in (True, sentences), (False, [" ".join(sentences)]):
        reading = Reading(tokenizer=tokenizer, split=split)
        output = embed_files(tmp_path, [str(text)], reading=reading)
        corpus = embed.open(output)
        assert [" ".join(s.tokens) for s in corpus.sentences()] == expected
        ((_, starts, ends),) = corpus[0].offsets
        assert [line[a:b] for a, b in zip(starts, ends)] == corpus[0].tokens
        output.rename(tmp_path / f"done-{split}")


def test_long_sentences_are_read_in_windows(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text(" ".join(f"w{i}" for i in range(23)) + "\n")
    output = embed_files(tmp_path, [str(text)], reading=Reading(window=10))
    assert [len(s.tokens) for s in embed.open(output).sentences()] == [8, 8, 7]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS.values())
def test_both_models_that_ship(tmp_path, name):
    text, bilm = write_lines(tmp_path / "a.txt", 30), BiLM.load(find(name))
    output = tmp_path / "vectors"
    reading = Reading(lang="xx")
    plan, encoder = make_plan(name, [text], output, reading=reading, shard_mb=SMALL)
    assert plan.computing == Computing() and plan.computing.exact
    run(output, encoder=encoder)
    report = verify(output, full=True)
    assert report.problems == [] and report.recomputed == report.counts["tokens"] > 300
    sentences = list(embed.open(output).sentences())
    encoded = bilm.encode([sentence.tokens for sentence in sentences])
    for sentence, layers in zip(sentences, encoded):
        assert np.array_equal(sentence.vectors, average(layers))
    assert Path(plan.inputs[0].path) == tmp_path.resolve() / "a.txt"
