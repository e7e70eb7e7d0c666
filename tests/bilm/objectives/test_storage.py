"""Objectives in files, by registered name and settings."""

import inspect

import pytest
import torch
from safetensors.torch import save_file

from spacy_elmo.bilm import read_with_checksum, write_with_checksum
from spacy_elmo.bilm.objectives import (
    AdaptiveSoftmax,
    FullSoftmax,
    MakeObjective,
    Objective,
    SampledSoftmax,
    load,
    save,
)
from spacy_elmo.registry import registry


class Tilted(Objective):
    """An objective of another package: logits scaled by a number that is learnt."""

    name = "tests.Tilted.v1"

    def __init__(self, width: int, n_words: int, scale: float) -> None:
        super().__init__(width, n_words)
        self.weight = torch.nn.Parameter(torch.randn(n_words, width))
        self.register_buffer("seen", torch.arange(n_words))
        self.scale = scale

    def forward(self, h_NH, target_N):
        logits = self.scale * h_NH @ self.weight.t()
        return torch.log_softmax(logits, 1)[range(len(h_NH)), target_N]

    def settings(self):
        return {"scale": self.scale}


@registry.objectives(Tilted.name)
def tilted(scale: float = 1.0) -> MakeObjective:
    return lambda width, n_words: Tilted(width, n_words, scale)


# Settings that differ from the defaults: otherwise a file that has lost them is read as
# if it had them.
SETTINGS = {
    AdaptiveSoftmax.name: {"cutoffs": [4, 9]},
    SampledSoftmax.name: {"samples": 6},
    Tilted.name: {"scale": 0.5},
    "elmo-extension.TemperatureSoftmax.v1": {"temperature": 2.0},
}
OBJECTIVES = {
    name: make(**SETTINGS.get(name, {}))(16, 20)
    for name, make in registry.objectives.get_all().items()
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_all_that_have_settings_have_some_here(name):
    settings = inspect.signature(registry.objectives.get(name)).parameters
    assert set(settings) == set(SETTINGS.get(name, {}))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_is_a_distribution_over_the_vocabulary(name):
    """In evaluation, so that perplexities of different objectives can be compared."""
    torch.manual_seed(0)
    objective, h = OBJECTIVES[name].eval(), torch.randn(5, 16)
    log_p = [objective(h, torch.full((5,), word)) for word in range(20)]
    assert torch.stack(log_p).exp().sum(0).allclose(torch.ones(5), atol=1e-5)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_saved_and_loaded(tmp_path, name):
    objective = OBJECTIVES[name].eval()
    h, target = torch.randn(5, 16), torch.arange(5)
    save(objective, tmp_path / "file")
    loaded = load(tmp_path / "file", 16, 20).eval()
    assert type(loaded) is type(objective)
    assert loaded.settings() == objective.settings()
    assert loaded.describe() == objective.describe()
    assert torch.equal(loaded(h, target), objective(h, target))


def test_a_file_that_names_no_objective(tmp_path):
    save_file(OBJECTIVES[FullSoftmax.name].state_dict(), tmp_path / "file")
    with (
        pytest.warns(UserWarning, match="ELW52"),
        pytest.raises(ValueError, match=r"EL002.*does not name its objective"),
    ):
        load(tmp_path / "file", 16, 20)


def test_of_another_size(tmp_path):
    save(OBJECTIVES[FullSoftmax.name], tmp_path / "file")
    with pytest.raises(ValueError, match="EL007"):
        load(tmp_path / "file", 16, 21)


def test_a_larger_vocabulary_takes_no_memory(tmp_path):
    """It is of another file, which anyone may have made."""
    save(OBJECTIVES[FullSoftmax.name], tmp_path / "file")
    with pytest.raises(ValueError, match="EL007"):
        load(tmp_path / "file", 16, 10**13)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float8_e4m3fn])
def test_numbers_of_another_kind(tmp_path, dtype):
    save(OBJECTIVES[FullSoftmax.name], tmp_path / "file")
    header, arrays = read_with_checksum(tmp_path / "file", "objective")
    arrays["weight"] = arrays["weight"].to(dtype)
    write_with_checksum(tmp_path / "file", arrays, "objective", header)
    with pytest.raises(ValueError, match=r"EL009.*weight"):
        load(tmp_path / "file", 16, 20)


def test_numbers_that_float32_does_not_have(tmp_path):
    save(OBJECTIVES[FullSoftmax.name], tmp_path / "file", torch.float64)
    header, arrays = read_with_checksum(tmp_path / "file", "objective")
    arrays["weight"][0, 0] = 1e300
    write_with_checksum(tmp_path / "file", arrays, "objective", header)
    with pytest.raises(ValueError, match=r"EL008.*weight"):
        load(tmp_path / "file", 16, 20)


def test_damaged_file(tmp_path):
    path = tmp_path / "file"
    save(OBJECTIVES[AdaptiveSoftmax.name], path)
    whole = path.read_bytes()
    for damaged in (
        whole[:50],
        whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],  # one bit of one number
        whole.replace(b"cutoffs", b"cutofft"),
        whole.replace(b"Adaptive", b"Adaptivv"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="EL002"):
            load(path, 16, 20)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((AdaptiveSoftmax.name, {"cutoffs": c}) for c in (["a"], [1.5], 3, None, {})),
        *((SampledSoftmax.name, {"samples": s}) for s in (2.5, "a", 0, None)),
    ],
)
def test_settings_that_the_objective_does_not_have(tmp_path, name, settings):
    save(OBJECTIVES[name], tmp_path / "file")
    header, arrays = read_with_checksum(tmp_path / "file", "objective")
    header["settings"] = settings
    write_with_checksum(tmp_path / "file", arrays, "objective", header)
    (setting,) = settings
    with pytest.raises(ValueError, match=rf"EL002.*file.*{setting}.*: Input should be"):
        load(tmp_path / "file", 16, 20)


def test_objective_that_is_not_installed(tmp_path):
    class Unknown(FullSoftmax):
        name = "elsewhere.Unknown.v1"

    save(Unknown(16, 20), tmp_path / "file")
    with pytest.raises(ValueError, match=r"EL002.*elsewhere\.Unknown\.v1"):
        load(tmp_path / "file", 16, 20)
