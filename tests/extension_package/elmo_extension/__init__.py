"""An objective, a weight format, an optimizer and a schedule for spacy-elmo."""
