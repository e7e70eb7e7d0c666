"""A Korean tagger without MeCab: words are what stands between spaces.

    python examples/korean_tagger.py

The sentences were written for this example (CC0). For a tagger to use, take a treebank.
"""

import argparse

import spacy
from corpora import train
from spacy.tokens import Doc
from spacy.training import Example

NO_MECAB = {"nlp": {"tokenizer": {"@tokenizers": "spacy.Tokenizer.v1"}}}
# 낱말/품사: 조사가 붙은 말은 그 체언의 품사로 적었다.
TRAIN = """
봄이/NOUN 오면/VERB 강가에/NOUN 꽃이/NOUN 핀다/VERB ./PUNCT
아이들은/NOUN 작은/ADJ 배를/NOUN 타고/VERB 강을/NOUN 건넜다/VERB ./PUNCT
어제/ADV 시장에/NOUN 사람이/NOUN 아주/ADV 많았다/ADJ ./PUNCT
그녀는/PRON 두/NUM 시간/NOUN 동안/NOUN 책을/NOUN 읽었다/VERB ./PUNCT
우리는/PRON 내일/ADV 새/DET 집으로/NOUN 이사한다/VERB ./PUNCT
하늘이/NOUN 매우/ADV 맑고/ADJ 푸르다/ADJ ./PUNCT
그/DET 가게는/NOUN 빵을/NOUN 싸게/ADV 판다/VERB ./PUNCT
나는/PRON 커피를/NOUN 마시지/VERB 않는다/AUX ./PUNCT
동생이/NOUN 갑자기/ADV 큰/ADJ 소리로/NOUN 웃었다/VERB ./PUNCT
세/NUM 명의/NOUN 학생이/NOUN 교실에/NOUN 남았다/VERB ./PUNCT
할머니는/NOUN 따뜻한/ADJ 국을/NOUN 끓이셨다/VERB ./PUNCT
이/DET 노래는/NOUN 정말/ADV 아름답다/ADJ ./PUNCT
누가/PRON 창문을/NOUN 열었니/VERB ?/PUNCT
그는/PRON 천천히/ADV 문을/NOUN 닫았다/VERB ./PUNCT
겨울에는/NOUN 눈이/NOUN 많이/ADV 내린다/VERB ./PUNCT
너는/PRON 무엇을/PRON 찾고/VERB 있니/AUX ?/PUNCT
오래된/ADJ 나무가/NOUN 길가에/NOUN 서/VERB 있다/AUX ./PUNCT
선생님은/NOUN 학생들에게/NOUN 문제를/NOUN 설명했다/VERB ./PUNCT
모든/DET 사람이/NOUN 그/DET 소식을/NOUN 들었다/VERB ./PUNCT
고양이/NOUN 한/NUM 마리가/NOUN 조용히/ADV 잔다/VERB ./PUNCT
그들은/PRON 빨리/ADV 달리고/VERB 싶었다/AUX ./PUNCT
값이/NOUN 두/NUM 배로/NOUN 올랐다/VERB ./PUNCT
여름은/NOUN 덥고/ADJ 길다/ADJ ./PUNCT
저는/PRON 아직/ADV 점심을/NOUN 먹지/VERB 않았습니다/AUX ./PUNCT
"""
TEST = """
가을이/NOUN 오면/VERB 산에/NOUN 단풍이/NOUN 든다/VERB ./PUNCT
그녀는/PRON 예쁜/ADJ 꽃을/NOUN 샀다/VERB ./PUNCT
나는/PRON 어제/ADV 영화를/NOUN 보았다/VERB ./PUNCT
네/NUM 명의/NOUN 친구가/NOUN 우리/PRON 집에/NOUN 왔다/VERB ./PUNCT
강아지가/NOUN 마당에서/NOUN 신나게/ADV 뛴다/VERB ./PUNCT
그/DET 책은/NOUN 무척/ADV 어렵다/ADJ ./PUNCT
아버지는/NOUN 신문을/NOUN 읽고/VERB 계신다/AUX ./PUNCT
바람이/NOUN 차갑고/ADJ 강하다/ADJ ./PUNCT
"""
# ELMo alone: with so few sentences, nothing beside it could be learned.
TAGGER = {
    "model": {
        "@architectures": "spacy.Tagger.v2",
        "tok2vec": {
            "@architectures": "spacy-elmo.ElmoListener.v1",
            "layer_norm": True,
        },
    }
}


def read(nlp, text):
    """Return an Example for each line."""
    examples = []
    for line in text.strip().splitlines():
        words, tags = zip(*(token.rsplit("/", 1) for token in line.split()))
        gold = Doc(nlp.vocab, words=words, tags=tags)
        examples.append(Example(Doc(nlp.vocab, words=words), gold))
    return examples


def score(with_elmo, updates):
    """Return a trained pipeline and its accuracy on sentences it has not seen."""
    nlp = spacy.blank("ko", config=NO_MECAB)
    if with_elmo:
        nlp.add_pipe("elmo").use_layer_cache("memory")
    nlp.add_pipe("tagger", config=TAGGER if with_elmo else {})
    train(nlp, read(nlp, TRAIN), updates, batch_size=8)
    return nlp, nlp.evaluate(read(nlp, TEST))["tag_acc"]


def main(updates: int) -> None:
    _, without = score(False, updates)
    nlp, with_elmo = score(True, updates)
    print(f"accuracy: {100 * without:.1f} without ELMo, {100 * with_elmo:.1f} with it")
    doc = nlp("아이들이 눈을 보고 크게 웃었다.")
    print(" ".join(f"{token.text}/{token.tag_}" for token in doc))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--updates", type=int, default=100)
    main(parser.parse_args().updates)
