"""Text -> tokens -> shards -> streams, in NumPy: what a biLM is trained on.

reading.py, unpack.py     text files -> sentences of tokens (spaCy's tokenizers)
corpus.py                 numbered words and running text
prepare.py, parts.py      text files -> shards on disk
shards.py                 the format of the shards
streams.py                a corpus -> batches of steps
"""
