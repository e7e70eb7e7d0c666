"""The sources of the English corpus, in the order in which near-duplicates are judged:
of two like paragraphs, the one of the earlier source stays."""

from .english_modern import MODERN
from .source import Repository, Source

SOURCES = (
    *MODERN,
    Source(
        "en_factbook",
        "encyclopaedia",
        "public domain (17 USC 105)",
        "The World Factbook",
        "factbook",
        (
            Repository(
                "factbook/factbook.json",
                "8662a8b17a784841ab4528631b04090eb2f183eb",
                r"^[a-z-]+/[a-z]{2}\.json$",
            ),
        ),
    ),
    Source(
        "en_wikipedia",
        "encyclopaedia",
        "CC BY-SA 3.0",
        "English Wikipedia, 63,484 articles of August 2019",
        "wikipedia",
        (
            Repository(
                "chinapedia/wikipedia.abstract.en",
                "4f3e897da088cbe89a4f1d4cba3fa2e439c3721b",
                r"^Page/.*\.md$",
            ),
        ),
    ),
    Source(
        "en_eltec",
        "books",
        "CC BY 4.0 (texts: public domain)",
        "English novels of 1840-1920, the ELTeC collection",
        "tei",
        (
            Repository(
                "COST-ELTeC/ELTeC-eng",
                "3db3b6738a836f0e1b276b6c9703e42f4297f978",
                r"^level1/.*\.xml$",
            ),
        ),
    ),
    Source(
        "en_novels",
        "books",
        "public domain",
        "English novels of 1838-1929, of a hundred",
        "novels",
        (
            Repository(
                "computationalstylistics/100_english_novels",
                "143e601875d70e195f2cc5ebd8b034609271194d",
                r"^corpus/.*\.txt$",
            ),
        ),
    ),
    Source(
        "en_books",
        "books",
        "public domain (in the United States)",
        "classic books to 1929",
        "books",
        (
            Repository(
                "mlschmitt/classic-books-markdown",
                "944882722e9a96fa6cf2739dc2ea757e101f412f",
                r"^[^/]+/[^/]+\.md$",
            ),
        ),
        max_words=22_000_000,
    ),
)
