"""Training a biLM: text.py -> corpus.py -> model.py -> loop.py."""
