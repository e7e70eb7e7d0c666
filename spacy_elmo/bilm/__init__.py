"""The biLM, in pure PyTorch: no spaCy here. Start reading at bilm.py."""
