#!/usr/bin/env bash
# spaCy 3.8.18, `nlp.evaluate(examples)`.
#
# The pipeline is run on copies of the predicted Docs, and the copies keep their annotation. A tagger,
# a lemmatizer, a sentence recogniser and an entity recogniser leave alone what they find, so the
# score is that of the annotation and not of the pipeline. `Example(doc.copy(), doc)`, an easy way
# to evaluate on gold tokens, gives components that have learned nothing a score of 1.0. A
# pipeline that is perfect gets 0.0 on Docs that another one has annotated. Make the predicted
# Docs anew: `Doc(nlp.vocab, words=..., spaces=...)`, or `nlp.make_doc(text)`.
#
# Seen: untrained, on words: tag_acc 0.25, lemma_acc 0.5, sents_f 0.0;
#       untrained, on copies of gold: tag_acc 1.0, lemma_acc 1.0, sents_f 1.0;
#       trained, on words: ents_f 1.0; trained, on Docs of another pipeline: ents_f 0.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "spacy==3.8.18"
seen=$("$folder/venv/bin/python" -W ignore - <<'PY'
import spacy
from spacy.tokens import Doc
from spacy.training import Example

words = ["Ada", "met", "Bob", "."]


def pipeline(*names, label="PERSON"):
    """A pipeline that is initialised, and one Doc of gold annotation."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    for name in names:
        nlp.add_pipe(name)
    gold = Doc(
        nlp.vocab,
        words=words,
        tags=["A", "B", "C", "D"],
        lemmas=["ada", "meet", "bob", "."],
        sent_starts=[True, False, True, False],
        ents=[f"B-{label}", "O", f"B-{label}", "O"],
    )
    examples = [Example(Doc(nlp.vocab, words=words), gold)]
    return nlp, gold, examples, nlp.initialize(lambda: 5 * examples)


def trained(label):
    nlp, gold, examples, optimizer = pipeline("ner", label=label)
    for _ in range(50):
        nlp.update(examples, sgd=optimizer)
    return nlp, gold, examples


nlp, gold, on_words, _ = pipeline("tagger", "trainable_lemmatizer", "senter")
for place, examples in ("words", on_words), ("copies of gold", [Example(gold.copy(), gold)]):
    scores = nlp.evaluate(examples)
    rows = ", ".join(f"{key} {scores[key]}" for key in ("tag_acc", "lemma_acc", "sents_f"))
    print(f"untrained, on {place}: {rows};")

nlp, gold, on_words = trained("PERSON")
other, _, _ = trained("NAME")
annotated = other(Doc(other.vocab, words=words))
print(
    f"trained, on words: ents_f {nlp.evaluate(on_words)['ents_f']};",
    "trained, on Docs of another pipeline:",
    f"ents_f {nlp.evaluate([Example(annotated, gold)])['ents_f']}",
)
PY
)
echo "$seen"
test "$seen" = "untrained, on words: tag_acc 0.25, lemma_acc 0.5, sents_f 0.0;
untrained, on copies of gold: tag_acc 1.0, lemma_acc 1.0, sents_f 1.0;
trained, on words: ents_f 1.0; trained, on Docs of another pipeline: ents_f 0.0"
