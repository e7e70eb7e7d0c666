"""The `elmo` component of a spaCy pipeline. START in pipe.py."""
