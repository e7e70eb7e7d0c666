"""The sources of the German corpus, in the order in which near-duplicates are judged:
of two like paragraphs, the one of the earlier source stays."""

from .source import Repository, Source

_KLEXIKON = "dennlinger/klexikon", "c909f38794b244c2d55d5b0037755390c56c9610"

SOURCES = (
    Source(
        "de_nationalrat",
        "modern",
        "CC BY 4.0",
        "debates of the Austrian Nationalrat, 1996-2022, sittings of days that end in "
        "1, 4 or 7",
        "parlamint",
        (
            Repository(
                "acdh-oeaw/parlamint-static",
                "fea6ef05947bdbdb8039d25412c7d9c8c74ff009",
                r"^data/editions/ParlaMint-AT_\d{4}-\d\d-\d[147].*\.xml$",
            ),
        ),
        max_words=13_000_000,
    ),
    Source(
        "de_bundestag",
        "modern",
        "official works (German Copyright Act, section 5) and public speeches "
        "(section 48)",
        "debates of the German Bundestag, 2017-2026, sittings with an even number",
        "bundestag",
        (
            Repository(
                "sevenbanisch/bundestagsreden",
                "3e8022f58dad313f37aac260f7d52ae13155a44e",
                r"^parser/data_\d\d/\d{4}[02468].*\.xml$",
            ),
        ),
        max_words=13_000_000,
    ),
    Source(
        "de_klexikon",
        "encyclopaedia",
        "CC BY-SA 4.0",
        "Klexikon, an encyclopaedia for children, 2021",
        "klexikon",
        (Repository(*_KLEXIKON, r"^data/raw/klexikon/.*\.txt$"),),
    ),
    Source(
        "de_wikipedia",
        "encyclopaedia",
        "CC BY-SA 3.0",
        "German Wikipedia, 2,898 long articles of 2021",
        "klexikon",
        (Repository(*_KLEXIKON, r"^data/raw/wiki/.*\.txt$"),),
    ),
    Source(
        "de_eltec",
        "books",
        "CC BY 4.0 (texts: public domain)",
        "German novels of 1840-1920, the ELTeC collection",
        "tei",
        (
            Repository(
                "COST-ELTeC/ELTeC-deu",
                "d1eed488bd579ee95151b1a291a0056a90c36fa4",
                r"^level1/.*\.xml$",
            ),
        ),
    ),
    Source(
        "de_novels",
        "books",
        "public domain",
        "German novels of 1774-1930, of authors who died before 1956",
        "novels",
        (
            Repository(
                "computationalstylistics/68_german_novels",
                "4cc71e1d44647244b3df29474180a8a5e4fe8290",
                r"^corpus/(?!hesse_).*\.txt$",
            ),
        ),
    ),
)
