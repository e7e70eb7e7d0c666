"""What a card says of the machine."""

import torch

from spacy_elmo.pretrain.card import describe


def test_a_gpu_is_named_with_the_memory_that_was_taken(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 3 << 29)
    assert describe(torch.device("cpu")) == "cpu"
    assert describe(torch.device("cuda:0")) == "cuda:0 (NVIDIA H200, 1.5 GiB taken)"
