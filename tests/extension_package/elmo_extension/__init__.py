"""An objective, a weight format, an optimizer, a schedule and a sink for spacy-elmo."""
