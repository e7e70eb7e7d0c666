"""The vectors of words, against convolutions of 64 bits; files and their damage."""

import random
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.numpy import load, save

from spacy_elmo.words import WordEncoder
from spacy_elmo.words.encoder import CACHE_WORDS, FILE, packed
from spacy_elmo.words.pieces import pieces_of

from . import PIECES, tiny_arrays, tiny_encoder

NUMBERS = {piece: number for number, piece in enumerate(PIECES)}
WORDS = [
    "a", "ABC", "abcde", "h.h", "日", "zzz", "", " ", "\x00", "한국어", "😀",
    "a,b.c" * 9, "a" * 5000, "." * 5000, "\ud800",
]  # fmt: skip


def by_definition(arrays, word):
    """One word through torch's convolutions, in 64 bits."""
    ids = pieces_of(word, NUMBERS)
    if not ids:
        return np.zeros(arrays["output.bias"].shape, dtype=np.float32)
    x = torch.tensor(arrays["table"][[1, *ids, 2]], dtype=torch.float64).T[None]
    number = 0
    while f"layer.{number}.weight" in arrays:
        weight, scale, bias = (
            torch.tensor(arrays[f"layer.{number}.{part}"], dtype=torch.float64)
            for part in ("weight", "scale", "bias")
        )
        kernel = weight.view(3, x.shape[1], -1).permute(2, 1, 0)
        y = F.conv1d(x, kernel, padding=1)[0].T * scale + bias
        y = y.clamp(min=0).round()
        if number:
            y = y + x[0].T
        y = y.clamp(max=127)
        y[0] = y[-1] = 0
        x = y.T[None]
        number += 1
    mean = x[0, :, 1:-1].mean(dim=1).numpy()
    product = mean @ arrays["output.weight"].astype(np.float64)
    return product * arrays["output.scale"] + arrays["output.bias"]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_vectors_are_those_of_the_definition(depth):
    arrays = tiny_arrays(depth=depth)
    found = WordEncoder(arrays).vectors(WORDS)
    expected = np.array([by_definition(arrays, word) for word in WORDS])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert len(np.unique(found, axis=0)) > 5


def test_a_word_has_the_same_bits_in_any_batch_and_after_any_history():
    draw = random.Random(0)
    words = [
        "".join(draw.choices("abcdefgh.,zé", k=draw.randint(0, 30))) for _ in range(500)
    ]
    arrays = tiny_arrays(embedding=300, hidden=200)
    expected = WordEncoder(arrays).vectors(words)
    other = WordEncoder(arrays)
    order = draw.sample(range(len(words)), len(words))
    for n in order:
        assert other.vectors([words[n]]).tobytes() == expected[n].tobytes()
    for _ in range(20):
        some = draw.choices(range(len(words)), k=draw.randint(0, 40))
        found = WordEncoder(arrays).vectors([words[n] for n in some])
        assert found.tobytes() == expected[some].tobytes()


def test_what_is_kept_is_bounded_and_changes_nothing():
    encoder = tiny_encoder()
    words = [f"a{number}" for number in range(CACHE_WORDS)]
    first = encoder.vectors(["abc"])
    assert encoder.vectors(words[: CACHE_WORDS // 2]).shape == (CACHE_WORDS // 2, 4)
    encoder.vectors(words)
    assert (encoder.vectors(["abc", *words[:10]])[0] == first[0]).all()
    assert encoder.n_kept <= CACHE_WORDS


def test_threads_find_the_same():
    encoder = tiny_encoder()
    words = [f"a{number}b" for number in range(3000)]
    expected = tiny_encoder().vectors(words)
    wrong = []

    def read(seed):
        draw = random.Random(seed)
        for _ in range(30):
            some = draw.sample(range(3000), 100)
            if (encoder.vectors([words[n] for n in some]) != expected[some]).any():
                wrong.append(seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_no_words():
    assert tiny_encoder().vectors([]).shape == (0, 4)


def test_saved_and_loaded(tmp_path):
    encoder = tiny_encoder()
    encoder.save(tmp_path)
    assert (tmp_path / FILE).exists()
    for path in (tmp_path, tmp_path / FILE):
        loaded = WordEncoder.load(path)
        assert loaded.sha256 == encoder.sha256
        assert (loaded.vectors(WORDS) == encoder.vectors(WORDS)).all()


def test_equal_weights_are_in_memory_once():
    data = tiny_encoder().to_bytes()
    assert WordEncoder.from_bytes(data) is WordEncoder.from_bytes(data)


def test_there_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="EL146"):
        WordEncoder.load(tmp_path)


def same_arrays(one, other):
    try:
        found = load(one)
    except SafetensorError:
        return False
    expected = load(other)
    return found.keys() == expected.keys() and all(
        found[name].dtype == array.dtype and np.array_equal(found[name], array)
        for name, array in expected.items()
    )


def test_damage_is_found(tmp_path):
    data = tiny_encoder().to_bytes()
    draw = random.Random(0)
    for _ in range(300):
        place = draw.randrange(len(data))
        damaged = bytearray(data)
        damaged[place] ^= 1 << draw.randrange(8)
        (tmp_path / FILE).write_bytes(bytes(damaged))
        if same_arrays(bytes(damaged), data):
            continue  # a letter of the header that means the same
        with pytest.raises(ValueError, match=r"\[EL002\]"):
            WordEncoder.load(tmp_path)


def forged(**changed):
    """A file whose checksum is right, of arrays that are not."""
    arrays = {**tiny_arrays(), **changed}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    return packed(arrays)


@pytest.mark.parametrize(
    "changed",
    [
        {"table": None},
        {"more": np.zeros(3)},
        {"format": np.array(2, dtype=np.int32)},
        {"format": np.array([1, 1], dtype=np.int32)},
        {"table": np.zeros((3, 6), dtype=np.int8)},
        {"table": np.zeros(18, dtype=np.int8)},
        {"table": np.full((20, 6), -128, dtype=np.int8)},
        {"table": np.zeros((20, 6), dtype=np.float32)},
        {"pieces": np.frombuffer(b"\xff\xfe", dtype=np.uint8)},
        {"pieces": np.frombuffer(b"a\na", dtype=np.uint8)},
        {"pieces": np.zeros((2, 2), dtype=np.uint8)},
        {"output.bias": np.full(4, np.nan, dtype=np.float32)},
        {"output.scale": np.zeros(5, dtype=np.float32)},
        {"output.weight": np.zeros((5, 0), dtype=np.int8)},
        {"layer.0.weight": np.zeros((17, 5), dtype=np.int8)},
        {"layer.1.weight": np.zeros((15, 7), dtype=np.int8)},
        {"layer.1.weight": None},
        {"layer.9.weight": np.zeros((15, 5), dtype=np.int8)},
    ],
)
def test_what_is_not_an_encoder_is_refused(changed):
    with pytest.raises(ValueError, match="EL002"):
        WordEncoder.from_bytes(forged(**changed))


def test_what_would_not_be_exact_is_refused():
    with pytest.raises(ValueError, match="EL002"):
        tiny_encoder(embedding=342)


def test_a_file_is_plain_safetensors():
    arrays = load(tiny_encoder().to_bytes())
    assert save(arrays)
    assert arrays["table"].dtype == np.int8
