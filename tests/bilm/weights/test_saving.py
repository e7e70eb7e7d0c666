"""Saving: all or nothing, and nothing of what was there before."""

import errno
import os
from pathlib import Path

import pytest
import torch

from spacy_elmo import BiLM
from spacy_elmo.bilm.objectives import FullSoftmax
from spacy_elmo.bilm.weights import has_objective
from spacy_elmo.files import atomic as files

from ...models import OURS_TO_WRITE, same_layers, tiny_config


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("format", OURS_TO_WRITE)
def test_full_disk_leaves_the_model_that_was_there(tiny, tmp_path, monkeypatch, format):
    tiny.save(tmp_path, format=format)
    before = contents(tmp_path)
    other = BiLM.random(tiny_config(), seed=9)
    # Every file but the first goes to a device that is always full.
    real, n = files.fill, iter(range(9))

    def full(write, aside):
        return real(write, aside) if next(n) == 0 else real(write, Path("/dev/full"))

    monkeypatch.setattr(files, "fill", full)
    with pytest.raises(OSError, match="EL013") as raised:
        other.save(tmp_path, format=format)
    assert raised.value.errno in (errno.ENOSPC, None)
    assert contents(tmp_path) == before


def test_rename_that_fails_half_way_brings_the_old_files_back(
    tiny, tmp_path, monkeypatch
):
    tiny.save(tmp_path)
    before, real = contents(tmp_path), os.replace

    def failing(source, target):
        if str(source).endswith("new") and Path(target).name == "config.json":
            raise OSError(errno.EIO, "broken")
        real(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="EL013"):
        BiLM.random(tiny_config(), seed=9).save(tmp_path)
    assert contents(tmp_path) == before
    monkeypatch.undo()
    assert same_layers(BiLM.load(tmp_path), tiny)


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", range(4))
def test_interrupted_at_any_rename(tiny, tmp_path, monkeypatch, error, at):
    """Also files that were not there before are gone again."""
    tiny.save(tmp_path)
    before, real, n = contents(tmp_path), os.replace, iter(range(99))

    def failing(source, target):
        if str(source).endswith("new") and next(n) == at:
            raise error
        real(source, target)

    monkeypatch.setattr(os, "replace", failing)
    vocab = ["<S>", "</S>", "<UNK>", "a"]
    other = BiLM.random(tiny_config(), seed=9, vocab=vocab)
    with pytest.raises((OSError, KeyboardInterrupt)):
        other.save(tmp_path, softmax=FullSoftmax(6, 4))
    assert contents(tmp_path) == before


def test_one_format_over_another(tiny, tmp_path):
    tiny.save(tmp_path / "own")
    tiny.save(tmp_path / "tf", format="bilm-tf")
    for save in (
        lambda: tiny.save(tmp_path / "own", format="bilm-tf"),
        lambda: tiny.save(tmp_path / "tf"),
    ):
        with pytest.raises(ValueError, match="EL016"):
            save()
    assert same_layers(BiLM.load(tmp_path / "own"), tiny)


def test_models_of_other_programs_are_not_replaced(tiny, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "vocab.txt").write_text("[PAD]")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"EL061.*config\.json"):
        tiny.save(tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_saving_where_a_pipe_has_the_name_does_not_wait(tiny, tmp_path):
    os.mkfifo(tmp_path / "config.json")
    tiny.save(tmp_path)
    assert same_layers(BiLM.load(tmp_path), tiny)


def test_saving_over_another_model_leaves_nothing_of_it(tiny, tmp_path):
    vocab = ["<S>", "</S>", "<UNK>", "a"]
    softmax = FullSoftmax(6, 4)
    BiLM.random(tiny_config(), vocab=vocab).save(tmp_path, softmax=softmax)
    (tmp_path / "card.json").write_text("{}")
    tiny.save(tmp_path)
    assert sorted(contents(tmp_path)) == ["config.json", "weights.safetensors"]
    tiny.save(tmp_path / "tf", format="bilm-tf")
    (tmp_path / "tf" / "weights.hdf5").rename(tmp_path / "tf" / "other.hdf5")
    with pytest.raises(ValueError, match="EL005"):
        tiny.save(tmp_path / "tf", format="bilm-tf")


def test_saving_over_bilm_tf_leaves_no_softmax_and_no_card(tmp_path):
    """Beside its weights people can have put both."""
    vocab = ["<S>", "</S>", "<UNK>", "a"]
    trained = BiLM.random(tiny_config(), vocab=vocab)
    trained.save(tmp_path / "own", softmax=FullSoftmax(6, 4), card={})
    trained.save(tmp_path / "tf", format="bilm-tf")
    for name in ("softmax.safetensors", "card.json"):
        (tmp_path / "own" / name).rename(tmp_path / "tf" / name)
    assert has_objective(tmp_path / "tf")
    BiLM.random(tiny_config(), seed=9, vocab=vocab).save(
        tmp_path / "tf", format="bilm-tf"
    )
    files = ["options.json", "vocab.txt", "weights.hdf5"]
    assert sorted(contents(tmp_path / "tf")) == files


def test_saving_again_beside_other_options(tiny, tmp_path):
    tiny.save(tmp_path, format="bilm-tf")
    (tmp_path / "tokenizer_options.json").write_text("{}")
    tiny.save(tmp_path, format="bilm-tf")
    assert BiLM.load(tmp_path).fingerprint() == tiny.fingerprint()


@pytest.mark.parametrize(
    ("value", "dtype"), [(1e6, "float16"), (float("nan"), "float32")]
)
def test_what_could_not_be_loaded_is_not_saved(tiny, tmp_path, value, dtype):
    with torch.no_grad():
        tiny.forward_lstm.layers[0].bias[0] = value
    with pytest.raises(ValueError, match="EL019"):
        tiny.save(tmp_path, dtype=dtype)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "dtype"), [(1e6, "float16"), (float("nan"), "float32")]
)
def test_a_softmax_that_could_not_be_loaded_is_not_saved(tmp_path, value, dtype):
    vocab = ["<S>", "</S>", "<UNK>", "a"]
    bilm, softmax = BiLM.random(tiny_config(), vocab=vocab), FullSoftmax(6, 4)
    bilm.save(tmp_path, softmax=softmax)
    before = contents(tmp_path)
    with torch.no_grad():
        softmax.bias[0] = value
    with pytest.raises(ValueError, match="EL019"):
        bilm.save(tmp_path, softmax=softmax, dtype=dtype)
    assert contents(tmp_path) == before


def test_unknown_dtype(tiny, tmp_path):
    with pytest.raises(ValueError, match="EL027"):
        tiny.save(tmp_path, dtype="float64")


def test_folder_that_can_not_be_made(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="EL013"):
        tiny.save(tmp_path / "file" / "model")


def test_saved_files_are_readable_as_others_are(tiny, tmp_path):
    tiny.save(tmp_path)
    (tmp_path / "usual").write_text("")
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


class Killed(BaseException):
    pass


def killed_at(monkeypatch, n):
    """Let the process end at its n-th operation on files: nothing after it happens."""
    done = iter(range(10**6))
    for owner, name in (
        (os, "replace"), (os, "link"), (Path, "rename"), (Path, "unlink"),
        (Path, "mkdir"), (files.shutil, "rmtree"), (files, "fill"),
    ):  # fmt: skip
        real = getattr(owner, name)

        def operation(*args, _real=real, **settings):
            if next(done) >= n:
                raise Killed
            return _real(*args, **settings)

        monkeypatch.setattr(owner, name, operation)


@pytest.mark.parametrize("format", OURS_TO_WRITE)
@pytest.mark.slow
def test_killed_anywhere_leaves_the_old_or_the_new(tiny, tmp_path, monkeypatch, format):
    """And what was left does not come back over what is saved later."""
    new, newest = (BiLM.random(tiny_config(), seed=seed) for seed in (8, 9))
    n, finished = 0, False
    while not finished:
        folder = tmp_path / str(n)
        tiny.save(folder, format=format)
        with monkeypatch.context() as context:
            killed_at(context, n)
            try:
                new.save(folder, format=format)
                finished = True
            except Killed:
                pass
        found = BiLM.load(folder).fingerprint()
        assert found in (tiny.fingerprint(), new.fingerprint())
        newest.save(folder, format=format)
        files.recover(folder)
        assert BiLM.load(folder).fingerprint() == newest.fingerprint()
        n += 1
    assert n > 10


def test_read_only_disk_is_one_error(tiny, tmp_path, monkeypatch):
    def read_only(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("write_bytes", "write_text", "unlink"):
        monkeypatch.setattr(Path, name, read_only)
    with pytest.raises(OSError, match=r"EL013.*Read-only"):
        tiny.save(tmp_path)


def test_a_changed_vocabulary_is_refused(tmp_path):
    vocab = ["<S>", "</S>", "<UNK>", "a"]
    BiLM.random(tiny_config(), vocab=vocab).save(tmp_path)
    assert BiLM.load(tmp_path).vocab == vocab
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nc\n")
    with pytest.raises(ValueError, match=r"EL003.*vocab\.txt"):
        BiLM.load(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(ValueError, match=r"EL003.*vocab\.txt.*not there"):
        BiLM.load(tmp_path)
