"""What is there already is neither written over unasked nor mixed with what is new."""

import subprocess
import sys

import pytest

from spacy_elmo import BiLM
from spacy_elmo.pretrain import checkpoint
from spacy_elmo.pretrain.config import read_config
from spacy_elmo.pretrain.loop import pretrain

from .runs import log, write_config, write_text


@pytest.fixture
def folder(tmp_path):
    write_text(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_models_without_a_checkpoint_are_not_written_over(folder):
    """As people remove the large file of a run that is over; nor is a pipeline of spaCy
    in their place, of which --force leaves what is not of a run."""
    output = folder / "out"
    config = read_config(write_config(folder))
    pretrain(config, output)
    (output / checkpoint.FILE).unlink()
    before = BiLM.load(output / "model-best").fingerprint()
    other = read_config(write_config(folder), {"training.seed": 3})
    for _ in range(2):
        with pytest.raises(ValueError, match=r"EL047.*'model-best', and no checkpoint"):
            pretrain(other, output)
        assert BiLM.load(output / "model-best").fingerprint() == before
        assert log(output)[-1]["step"] == 69
    (output / "model-best" / "meta.json").write_text("{}")
    pretrain(other, output, overwrite=True)
    assert BiLM.load(output / "model-best").fingerprint() != before
    assert (output / "model-best" / "meta.json").exists()


def test_models_that_are_written_over_are_gone_at_once(folder):
    output = folder / "out"
    pretrain(read_config(write_config(folder)), output)
    broken = {"training.optimizer.learn_rate": 1e30, "training.eval_every": 1000}
    with pytest.raises(ValueError, match="EL038"):
        pretrain(read_config(write_config(folder), broken), output, overwrite=True)
    assert checkpoint.read_progress(output)["step"] < 69
    for name in ("model-best", "model-last"):
        assert not any((output / name).iterdir())


def test_a_run_stays_where_one_that_would_replace_it_is_refused(folder):
    """Its text, too, without which it could not be resumed."""
    output = folder / "out"
    config = read_config(write_config(folder))
    pretrain(config, output)
    before = log(output)
    (folder / "other.txt").write_text("the other cat\n" * 50)
    settings = {"text.train": [str(folder / "other.txt")]}
    too_large = {**settings, "training.batch_size": 100_000}
    with pytest.raises(ValueError, match="EL035"):
        pretrain(read_config(write_config(folder), too_large), output, overwrite=True)
    pretrain(config, output)
    assert log(output) == before
    other = read_config(write_config(folder), settings)
    (output / "text" / "train" / "notes.md").write_text("what the user has there")
    pretrain(other, output, overwrite=True)
    assert log(output) != before
    assert (output / "text" / "train" / "notes.md").exists()
    assert sorted(found.name for found in (output / "text").iterdir()) == [
        "dev",
        "train",
    ]
    pretrain(other, output)


def test_a_source_is_never_replaced(folder):
    output = folder / "out"
    pretrain(read_config(write_config(folder)), output)
    words = output / "text" / "train" / "words.txt"
    before = words.read_text()
    config = read_config(write_config(folder), {"text.train": [str(words)]})
    with pytest.raises(ValueError, match="EL042"):
        pretrain(config, output, overwrite=True)
    assert words.read_text() == before


def test_a_folder_that_another_process_trains_in(folder):
    config = read_config(write_config(folder))
    (folder / "out").mkdir()
    holds = (
        "import sys; from pathlib import Path\n"
        "from spacy_elmo.files import held\n"
        "with held(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(folder / "out")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match="EL124"):
            pretrain(config, folder / "out")
        assert list((folder / "out").iterdir()) == []
    pretrain(config, folder / "out")
