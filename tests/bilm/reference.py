"""A biLM in float64 NumPy, token by token, written from the definition alone.

It reads weights under the published names, as float arrays, and shares no code with
the package.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def character_ids(token, size):
    marks = {"<S>": 256, "</S>": 257}
    inner = [marks[token]] if token in marks else list(token.encode("utf-8", "ignore"))
    ids = [258, *inner[: size - 2], 259]
    return [i + 1 for i in ids + [260] * (size - len(ids))]


def token_vector(weights, options, token):
    cnn = options["char_cnn"]
    table = np.vstack([np.zeros(weights["char_embed"].shape[1]), weights["char_embed"]])
    chars = table[character_ids(token, cnn["max_characters_per_token"])]
    activation = np.tanh if cnn["activation"] == "tanh" else lambda x: np.maximum(x, 0)
    parts = []
    for k, (width, n) in enumerate(cnn["filters"]):
        kernel = weights[f"CNN/W_cnn_{k}"][0]
        windows = [
            sum(chars[p + q] @ kernel[q] for q in range(width))
            + weights[f"CNN/b_cnn_{k}"]
            for p in range(len(chars) - width + 1)
        ]
        assert windows[0].shape == (n,)
        parts.append(activation(np.max(windows, axis=0)))
    x = np.concatenate(parts)
    for k in range(cnn["n_highway"]):
        high = {name: weights[f"CNN_high_{k}/{name}"] for name in HIGHWAY}
        carry = sigmoid(x @ high["W_carry"] + high["b_carry"])
        transform = np.maximum(x @ high["W_transform"] + high["b_transform"], 0)
        x = carry * transform + (1 - carry) * x
    if "CNN_proj/W_proj" in weights:
        x = x @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]
    return x


HIGHWAY = ("W_carry", "b_carry", "W_transform", "b_transform")


def run_layer(weights, prefix, lstm, inputs):
    cells, clip_c, clip_p = lstm["dim"], lstm["cell_clip"], lstm["proj_clip"]
    W, B = weights[f"{prefix}/W_0"], weights[f"{prefix}/B"]
    P = weights.get(f"{prefix}/W_P_0")
    c = np.zeros(cells)
    h = np.zeros(cells if P is None else P.shape[1])
    outputs = []
    for x in inputs:
        i, j, f, o = np.split(np.concatenate([x, h]) @ W + B, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
        if clip_c is not None:
            c = np.clip(c, -clip_c, clip_c)
        h = sigmoid(o) * np.tanh(c)
        if P is not None:
            h = h @ P
            if clip_p is not None:
                h = np.clip(h, -clip_p, clip_p)
        outputs.append(h)
    return outputs


def run_direction(weights, rnn, lstm, inputs):
    layers = []
    for layer in range(lstm["n_layers"]):
        prefix = f"{rnn}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        outputs = run_layer(weights, prefix, lstm, inputs)
        if lstm["use_skip_connections"] and layer > 0:
            outputs = [y + x for y, x in zip(outputs, inputs)]
        layers.append(outputs)
        inputs = outputs
    return layers


def encode(weights, options, sentence):
    """RETURNS: (L+1, T, 2H), boundaries removed."""
    weights = {
        name: np.asarray(array, dtype=np.float64) for name, array in weights.items()
    }
    tokens = ["<S>", *sentence, "</S>"]
    x = [token_vector(weights, options, token) for token in tokens]
    ahead = run_direction(weights, "RNN_0", options["lstm"], x)
    back = run_direction(weights, "RNN_1", options["lstm"], x[::-1])
    layers = [[np.concatenate([v, v]) for v in x]]
    for forward, backward in zip(ahead, back):
        layers.append([np.concatenate(pair) for pair in zip(forward, backward[::-1])])
    return np.array(layers)[:, 1:-1]
