import numpy as np
import torch

from spacy_elmo.bilm.scalar_mix import ScalarMix


def test_gold(gold):
    file = np.load(gold / "generated_by_allennlp" / "scalar_mix.npz")
    for name, norm in (("plain", None), ("ln", "allennlp")):
        mix = ScalarMix(3, layer_norm=norm)
        with torch.no_grad():
            mix.weights.copy_(torch.from_numpy(file["w"]))
            mix.gamma.copy_(torch.from_numpy(file["gamma"]))
            found = mix(
                torch.from_numpy(file["tensors"]), torch.from_numpy(file["mask"])
            )
        mask = file["mask"].astype(bool)
        assert abs(found.numpy() - file[name])[mask].max() < 1e-5


def test_starts_as_the_average():
    layers = torch.randn(3, 2, 4, 5)
    assert torch.allclose(ScalarMix(3)(layers), layers.mean(0), atol=1e-6)
