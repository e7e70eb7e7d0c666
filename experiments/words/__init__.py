"""Static vectors of words: a small word encoder learns a larger model's."""
