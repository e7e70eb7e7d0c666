"""The sources of the Portuguese corpus, in the order in which near-duplicates are
judged: of two like paragraphs, the one of the earlier source stays."""

from .source import Repository, Source

SOURCES = (
    Source(
        "pt_camara",
        "modern",
        "official acts and public speeches (Brazilian Lei 9.610, articles 8 and 46)",
        "speeches in the Brazilian Câmara dos Deputados, 2000-2022, of deputies whose "
        "numbers end in 0 or 5",
        "speeches_csv",
        (
            Repository(
                "carolinesma/discursos_dadosAbertos",
                "8311e63b057fdcfae588fd1a6f980ea7a9bd2afa",
                r"^Discursos/5[1-6]/\d*[05]\.csv$",
                history=True,
            ),
        ),
        max_words=17_000_000,
    ),
    Source(
        "pt_inquiry",
        "modern",
        "official acts and public speeches (Brazilian Lei 9.610, articles 8 and 46)",
        "inquiry of the Brazilian Senado on the pandemic, 2021",
        "speeches_csv",
        (
            Repository(
                "SoaresAlisson/NotasTaquigraficas",
                "54425cf8c9c79801edbd756d6be1668718b1e4e6",
                r"^csv/.*\.csv$",
            ),
        ),
    ),
    Source(
        "pt_assembleia",
        "modern",
        "not protected (Portuguese Copyright Act, article 7)",
        "debates of the Portuguese Assembleia da República, 1991-2015, sittings whose "
        "numbers end in 2, 5 or 8",
        "portuguese_assembly",
        (
            Repository(
                "guilherme-puga-a22306246/AISIC-Lab-Portuguese-Parliament",
                "d116da325371b485d5e5fb29a367d6adf6162b14",
                r"^src/data/raw/xml/(?:06|07|09|10|11|12)-\d-\d*[258]\.xml$",
            ),
        ),
        max_words=14_000_000,
    ),
    Source(
        "pt_lessons",
        "modern",
        "CC BY 4.0",
        "lessons of the Programming Historian",
        "markdown",
        (
            Repository(
                "programminghistorian-i18n/jekyll_new",
                "e630b80e25e6cb5e1c56b95ac3cbe198c1044b7f",
                r"^pt/licoes/[^/]*\.md$",
            ),
        ),
    ),
    Source(
        "pt_documentation",
        "modern",
        "CC BY-SA 2.5",
        "MDN Web Docs",
        "markdown",
        (
            Repository(
                "geoffreycrofte/mdn-translated-content",
                "e07b539d462aac5293e10e7d66f29e1a5da00f7d",
                r"^files/pt-br/.*\.md$",
            ),
        ),
    ),
    Source(
        "pt_eltec",
        "books",
        "CC BY 4.0 (texts: public domain)",
        "Portuguese novels of 1840-1920, the ELTeC collection",
        "tei",
        (
            Repository(
                "COST-ELTeC/ELTeC-por",
                "8886868916311001a8a8dd99aa6f18f6a2c68408",
                r"^level1/.*\.xml$",
            ),
        ),
    ),
    Source(
        "pt_textbox",
        "books",
        "CC BY 4.0 (texts: public domain)",
        "Portuguese novels of 1840-1910",
        "tei",
        (
            Repository(
                "cligs/textbox",
                "1b91e940475c8a7e866457a3953fed5edb0a29f1",
                r"^portuguese/[^/]*/tei/.*\.xml$",
            ),
        ),
    ),
)
