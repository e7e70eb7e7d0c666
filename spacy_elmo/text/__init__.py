"""Text -> tokens -> shards -> streams, in NumPy: what a biLM is trained on.

reading.py     text files -> sentences of tokens (spaCy's tokenizers)
corpus.py      numbered words and running text
prepare.py     text files -> shards on disk, by parts.py and join.py
shards.py      the format of the shards
streams.py     a corpus -> batches of steps
"""
