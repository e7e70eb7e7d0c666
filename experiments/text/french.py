"""The sources of the French corpus, in the order in which near-duplicates are judged:
of two like paragraphs, the one of the earlier source stays."""

from .source import Repository, Source

SOURCES = (
    Source(
        "fr_chamber",
        "modern",
        "CC0 1.0",
        "debates of the Belgian Chamber, what was said in French, 2024-2025",
        "belgian_chamber",
        (
            Repository(
                "thepycoder/zijwerkenvooru",
                "d534a36b34854821ea0aa9f63736af058b710b2e",
                r"^scraper/data/sources/sessions/56/meetings/(?:plenary|commission)/"
                r".*\.html$",
            ),
        ),
    ),
    Source(
        "fr_europarl",
        "modern",
        "free to reuse with the source named (legal notice of the European Parliament)",
        "debates of the European Parliament, 1996-2011, sittings of days with an odd "
        "number: a tenth spoken in French, the rest translated",
        "europarl",
        (
            Repository(
                "mjlaali/Europarl-ConcoDisco",
                "1a18432425a6ace708e96220b4fd1d4efd678ad0",
                r"^xml-files/ep-\d\d-\d\d-\d[13579].*\.xml$",
            ),
        ),
        max_words=21_500_000,
    ),
    Source(
        "fr_lessons",
        "modern",
        "CC BY 4.0",
        "lessons of the Programming Historian",
        "markdown",
        (
            Repository(
                "programminghistorian-i18n/jekyll_new",
                "e630b80e25e6cb5e1c56b95ac3cbe198c1044b7f",
                r"^fr/lecons/[^/]*\.md$",
            ),
        ),
    ),
    Source(
        "fr_documentation",
        "modern",
        "CC BY-SA 2.5",
        "MDN Web Docs",
        "markdown",
        (
            Repository(
                "geoffreycrofte/mdn-translated-content",
                "e07b539d462aac5293e10e7d66f29e1a5da00f7d",
                r"^files/fr/.*\.md$",
            ),
        ),
        max_words=1_500_000,
    ),
    Source(
        "fr_codes",
        "law",
        "public domain and Licence Ouverte 2.0",
        "codes of French law, 2026",
        "markdown",
        (
            Repository(
                "legalize-dev/legalize-fr",
                "bde5444da9141948b2130a3c4f94d750189eb88e",
                r"^fr/LEGITEXT\d*\.md$",
            ),
        ),
        max_words=3_000_000,
    ),
    Source(
        "fr_eltec",
        "books",
        "public domain",
        "French novels of 1840-1920, the ELTeC collection",
        "tei",
        (
            Repository(
                "COST-ELTeC/ELTeC-fra",
                "83f0a43fdb967cd1db646027a1a237307e4924a1",
                r"^level1/.*\.xml$",
            ),
        ),
    ),
    Source(
        "fr_eltec_more",
        "books",
        "public domain",
        "French novels of 1840-1910, the extension of the ELTeC collection",
        "tei",
        (
            Repository(
                "COST-ELTeC/ELTeC-fra-ext1",
                "dba118fc1b93861d8267c06d305893d648a38dbb",
                r"^level1/.*\.xml$",
            ),
        ),
        max_words=14_000_000,
    ),
)
