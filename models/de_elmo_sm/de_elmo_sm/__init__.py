"""The German biLM of spacy-elmo: its weights lie in this folder."""
