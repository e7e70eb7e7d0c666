"""Pipelines to install: `en_elmo_ewt` and `ko_elmo_gsd`, from treebank to wheel."""
