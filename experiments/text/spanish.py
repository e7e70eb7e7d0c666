"""The sources of the Spanish corpus, in the order in which near-duplicates are judged:
of two like paragraphs, the one of the earlier source stays."""

from .source import Repository, Source

SOURCES = (
    Source(
        "es_congreso",
        "modern",
        "CC BY 4.0",
        "debates of the Spanish Congreso de los Diputados, 2015-2023",
        "parlamint",
        (
            Repository(
                "calzada/PARLAMINT-ES-MC",
                "86d2321dcf735a7e82b3e565682f7c0450b984c2",
                r"^ParlaMint/ParlaMint-ES_.*\.xml$",
            ),
        ),
        max_words=17_500_000,
    ),
    Source(
        "es_openstax",
        "modern",
        "CC BY 4.0",
        "a textbook of OpenStax, Rice University: Física universitaria",
        "openstax",
        (
            Repository(
                "openstax/osbooks-fisica-universitaria-bundle",
                "dcfa34b3a56bfd87ec7caf25e9b90de82f8e80a1",
                r"^modules/.*\.cnxml$",
            ),
        ),
    ),
    Source(
        "es_lessons",
        "modern",
        "CC BY 4.0",
        "lessons of the Programming Historian",
        "markdown",
        (
            Repository(
                "programminghistorian-i18n/jekyll_new",
                "e630b80e25e6cb5e1c56b95ac3cbe198c1044b7f",
                r"^es/lecciones/[^/]*\.md$",
            ),
        ),
    ),
    Source(
        "es_documentation",
        "modern",
        "CC BY-SA 2.5",
        "MDN Web Docs",
        "markdown",
        (
            Repository(
                "geoffreycrofte/mdn-translated-content",
                "e07b539d462aac5293e10e7d66f29e1a5da00f7d",
                r"^files/es/.*\.md$",
            ),
        ),
    ),
    Source(
        "es_leyes",
        "law",
        "CC BY 4.0",
        "acts and some decrees of Argentina",
        "markdown",
        (
            Repository(
                "legalize-dev/legalize-ar",
                "3b589c1398d6c16de4e6a4f4986d511559659a56",
                r"^ar/(?:(?:LEY|DL|DNU)-.*|DEC-.*0)\.md$",
            ),
        ),
        max_words=6_000_000,
    ),
    Source(
        "es_eltec",
        "books",
        "CC BY 4.0 (texts: public domain)",
        "Spanish novels of 1840-1920, the ELTeC collection",
        "tei",
        (
            Repository(
                "COST-ELTeC/ELTeC-spa",
                "83e2a22d5ef66f96e59f47f7ef810358c4236322",
                r"^level1/.*\.xml$",
            ),
        ),
    ),
    Source(
        "es_textbox",
        "books",
        "CC BY 4.0 (texts: public domain)",
        "novels and tales of Spain and Spanish America, 1840-1940",
        "tei",
        (
            Repository(
                "cligs/textbox",
                "1b91e940475c8a7e866457a3953fed5edb0a29f1",
                r"^spanish/[^/]*/tei/.*\.xml$",
            ),
        ),
    ),
)
