"""A folder of ELMoForManyLangs, written here."""

import json
from pathlib import Path
from typing import Any

import torch

CHARS = [
    "<oov>",
    "<bos>",
    "<eos>",
    "<bow>",
    "<eow>",
    "<pad>",
    "a",
    "c",
    "t",
    "日",
    "\u3000",
]
WORDS = ["<oov>", "<bos>", "<eos>", "<pad>", "cat", "日本"]


def save_many_langs(
    folder: Path, *, hidden_dim: int = 8, projection_dim: int = 6
) -> None:
    """A random model, its sizes told apart by being all different."""
    torch.manual_seed(0)
    H, C, S, W, d = projection_dim, hidden_dim, 7, 3, 4
    encoder: dict[str, Any] = {}
    embedder = {
        "word_emb_layer.embedding.weight": torch.randn(len(WORDS), W),
        "char_emb_layer.embedding.weight": torch.randn(len(CHARS), d),
        "convolutions.0.weight": torch.randn(2, d, 1),
        "convolutions.0.bias": torch.randn(2),
        "convolutions.1.weight": torch.randn(5, d, 3) / 3,
        "convolutions.1.bias": torch.randn(5),
        "highways._layers.0.weight": torch.randn(2 * S, S) / 3,
        "highways._layers.0.bias": torch.randn(2 * S),
        "projection.weight": torch.randn(H, S + W) / 3,
        "projection.bias": torch.randn(H),
    }  # fmt: skip
    for direction in ("forward", "backward"):
        for layer in range(2):
            name = f"{direction}_layer_{layer}"
            encoder[f"{name}.input_linearity.weight"] = torch.randn(4 * C, H) / 3
            encoder[f"{name}.state_linearity.weight"] = torch.randn(4 * C, H) / 3
            encoder[f"{name}.state_linearity.bias"] = torch.randn(4 * C)
            encoder[f"{name}.state_projection.weight"] = torch.randn(H, C) / 3
    folder.mkdir()
    torch.save(encoder, folder / "encoder.pkl")
    torch.save(embedder, folder / "token_embedder.pkl")
    for name, entries in (("char.dic", CHARS), ("word.dic", WORDS)):
        text = "".join(f"{entry}\t{i}\n" for i, entry in enumerate(entries))
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "config.json").write_text(
        '{"config_path": "/home/them/configs/sizes.json"}'
    )
    sizes = {
        "encoder": {
            "projection_dim": H, "cell_clip": 3, "proj_clip": 3, "dim": C,
            "n_layers": 2,
        },
        "token_embedder": {
            "activation": "relu", "filters": [[1, 2], [3, 5]], "n_highway": 1,
            "word_dim": W, "char_dim": d, "max_characters_per_token": 50,
        },
    }  # fmt: skip
    (folder / "sizes.json").write_text(json.dumps(sizes))
