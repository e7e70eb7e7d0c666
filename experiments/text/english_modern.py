"""The sources of modern English prose that is no encyclopaedia."""

from .source import Repository, Source

_OPENSTAX = {
    "american-government": "5c90dd7907dbf25f42266417e63ca3bb0012f031",
    "astronomy": "63157f370b09c06a4cc12832384aaaf4de1ced3b",
    "business-ethics": "d64573e2807a1e7ba5d7dec8c36cd815a942b5c7",
    "college-success-bundle": "4c04b87eb2753872c2d442fe9736859ddb27bb72",
    "entrepreneurship": "c1fa2c872ba07dc864c3aeb5a510b08b4f657288",
    "introduction-anthropology": "418eedd9bef21ec1a6fa1b472c0d82c084e35c70",
    "introduction-business": "78c9e7ad4e581d4ff98e78ea30214840e1fa7e1e",
    "introduction-philosophy": "d7bd4f0f520529b3ad83272448a9c2be25c9040a",
    "introduction-political-science": "4391e659b98eec43b71e8b3f08241215fb4dd4c4",
    "introduction-sociology": "d35d5f3bdac40f93607d600134865d4f13ce1f9b",
    "principles-economics-bundle": "cd31beb103fffbc09cc81ebfe117d8c40cc12d1a",
    "psychology": "e061043bf2f9e86ace51c4e8dc9555160f60a99d",
    "us-history": "046331cfcea0ac1b1a8fd461b3e6aae638845af3",
    "world-history": "3e17beda9130380d24be881e6d1942dfcc1be845",
    "writing-guide": "a6c95528390e3a2936f5bf87c49ac1a4995a0a6e",
}

_EXCHANGE = {  # repository: commit, path of the posts
    "Jean-Low/StackERedes": ("b6ea69d57d00b90370d0b6f89fae522ffebf6a6e", "data/Posts"),
    "jrfoster/spark-intro": ("d242829803d27f4fca6a03065fd85749f505dbef", "Posts"),
    "GonzaloHirsch/TP-XML": ("a11ea4a889ae684a720c0536892209eaba40a845", "Posts"),
    "kevswanberg/beer_tentrr": ("9573647bff33c61bdce2f07a9000a4098fd3074d", "Posts"),
    "sasiddiqui/confucius": (
        "893604f757d3433cebb44aed241238f01487b190",
        "data/stackexchange/ai.stackexchange.com/Posts",
    ),
    "woodstock-dev/code-challenge-10-18-2023": (
        "7399398f756abd45523d51a8bf8679a28959971e",
        "data/Posts",
    ),
    "ArleneDcosta/StackExchangePatternandPrediction": (
        "bc4f1822a63cf2aa9ae945837cda520c176c6dc3",
        "Posts",
    ),
    "stevenrskelton/scala-2.10-blog-examples": (
        "7eaef88b977412b353c619f3148a9280cb78a1a5",
        "data/Posts",
    ),
    "Yoav-Shafir/Elasticsearch-Coffee-Search-Engine-JS": (
        "97e93c92aaa379fed6d0ee9be94b2024371d6aba",
        "Posts",
    ),
}

MODERN = (
    Source(
        "en_openstax",
        "modern",
        "CC BY 4.0",
        "textbooks of OpenStax, Rice University, as they were before 2025",
        "openstax",
        tuple(
            Repository(f"openstax/osbooks-{name}", commit, r"^modules/.*\.cnxml$")
            for name, commit in _OPENSTAX.items()
        ),
    ),
    Source(
        "en_congress",
        "modern",
        "public domain (17 USC 105)",
        "press releases of members of the US Congress, 2001-2026",
        "congress",
        (
            Repository(
                "dwillis/congress-press",
                "46d3cbc65898dee6b9a9cd6fc56ad6060e5da172",
                r"^data/\d{4}/[\d-]*\.jsonl$",
                history=True,
            ),
        ),
    ),
    Source(
        "en_white_house",
        "modern",
        "public domain (17 USC 105)",
        "speeches, remarks and interviews of the White House, 2009-2015",
        "remarks",
        (
            Repository(
                "computingForSocialScience/cfss-homework-jmausolf",
                "170d4a814b72928ac67802017387babfbb908e98",
                r"^Final_Project/White_House_Speeches/.*__2009-2015_MASTER_.*\.txt$",
            ),
        ),
    ),
    Source(
        "en_un_debates",
        "modern",
        "CC0 1.0",
        "speeches of states in the General Debate of the United Nations, 1990-2024",
        "debates",
        (
            Repository(
                "SarahFranzen/Emotions_in_the_United_Nations_General_Debates",
                "3b277c419f85fd6e1f14f69a5fd29a3a6b59fc96",
                r"TXT/Session [^/]*/[A-Z]{2,3}_\d\d_(?:199|20)\d+\.txt$",
            ),
        ),
    ),
    Source(
        "en_podcasts",
        "modern",
        "CC BY-SA 4.0",
        "transcribed conversations of the Changelog's podcasts",
        "podcasts",
        (
            Repository(
                "thechangelog/transcripts",
                "44a0e16c5919d332e05de481919fbfca90a2c90b",
                r"^(?!bigtent/)[a-z]+/[^/]*\.md$",
            ),
        ),
        max_words=11_000_000,
    ),
    Source(
        "en_magazines",
        "modern",
        "CC BY-SA 4.0",
        "articles of opensource.com and Fedora Magazine, 2013-2023",
        "magazines",
        (
            Repository(
                "LCTT/TranslateProject",
                "4948360714403ebcefc3abff80dcc69ad706bf5d",
                r"^sources/.*\.md$",
                history=True,
            ),
        ),
    ),
    Source(
        "en_exchange",
        "modern",
        "CC BY-SA 4.0",
        "questions and answers of nine small Stack Exchange sites",
        "exchange",
        tuple(
            Repository(name, commit, rf"^{path}\.xml$")
            for name, (commit, path) in _EXCHANGE.items()
        ),
    ),
    Source(
        "en_carpentries",
        "modern",
        "CC BY 4.0",
        "posts of the Carpentries on teaching, 2010-2026",
        "blogs",
        (
            Repository(
                "carpentries/carpentries.org",
                "68751fe788b156b50ef911539aef3d0cb876a3e0",
                r"^content/posts/.*\.(?:md|html)$",
            ),
        ),
    ),
    Source(
        "en_gov_blogs",
        "modern",
        "CC0 1.0 and public domain (17 USC 105)",
        "posts, guides and handbooks of the US General Services Administration",
        "blogs",
        (
            Repository(
                "GSA/digitalgov.gov",
                "4979583206d90ff1707b097454a9b169ca9e95e4",
                r"^content/.*\.md$",
            ),
            Repository(
                "18F/18f.gsa.gov",
                "0a55c75e6d9bc71c80136a3867dac52356177443",
                r"^content/.*\.md$",
            ),
            Repository(
                "18F/handbook",
                "1e4955634d0369f17e5bbc0ebbf8f62e2a3dfe4b",
                r"^pages/.*\.md$",
            ),
            Repository(
                "18F/guides",
                "debc24b34f23686194d9fe42e391859d569bd39a",
                r"^content/.*\.md$",
            ),
        ),
    ),
    Source(
        "en_fiction",
        "modern",
        "CC BY-SA 3.0",
        "tales and entries of the SCP wiki, 2008-2011 and later",
        "fiction",
        (
            Repository(
                "scp-data/scp-api",
                "aed5fca0c9b37f07e321fadcdf0e19bbf12d0354",
                r"^docs/data/scp/(?:tales/content_20(?:08|09|10|11)|"
                r"items/content_(?:explained|decommissioned|international))\.json$",
            ),
        ),
    ),
    Source(
        "en_essays",
        "modern",
        "CC BY 3.0",
        "The Architecture of Open Source Applications, 2011-2016",
        "essays",
        (
            Repository(
                "aosabook/aosabook",
                "3c147d363272138950266defbb99defa0cbd9e54",
                r"^docs/en/.*\.html$",
            ),
        ),
    ),
    Source(
        "en_ropensci",
        "modern",
        "CC BY 4.0",
        "posts of rOpenSci, 2011-2026",
        "blogs",
        (
            Repository(
                "ropensci/roweb3",
                "d84b7eb675f82b6282411055374bd1a7c16b4b5a",
                r"^content/blog/.*/(?:index|index\.en)\.md$|^content/blog/[^/]*\.md$",
            ),
        ),
    ),
    Source(
        "en_biographies",
        "modern",
        "public domain (17 USC 105)",
        "short histories by the US Department of State",
        "biographies",
        (
            Repository(
                "HistoryAtState/other-publications",
                "cb3de3985b759be48e160ae644599aa0afa02b43",
                r"^(?:secretary-bios|views-from-the-embassy|short-history|milestones|"
                r"education|buildings|faq)/.*\.xml$",
            ),
        ),
    ),
    Source(
        "en_record",
        "modern",
        "public domain (17 USC 105)",
        "speeches in the US Congress, of the Congressional Record of 2024",
        "record",
        (
            Repository(
                "b-d055/us-congressional-records",
                "b56cbb34751f9c92ff43fab2a4d8d12543c02b8d",
                r"^congressional_records_170/.*\.txt$",
            ),
        ),
    ),
    Source(
        "en_dialogues",
        "modern",
        "CC BY-SA 4.0",
        "dialogues with assistants: the Schema-Guided Dialogue data",
        "dialogues",
        (
            Repository(
                "google-research-datasets/dstc8-schema-guided-dialogue",
                "e852981ae34990f4358979625854259302feaa78",
                r"^(?:train|dev|test)/dialogues_\d+\.json$",
            ),
        ),
        max_words=1_500_000,
    ),
    Source(
        "en_documentation",
        "modern",
        "CC BY 4.0 and CC BY-SA 2.5",
        "documentation and blog of Kubernetes, MDN Web Docs",
        "blogs",
        (
            Repository(
                "Kab1r/website",
                "ffd02da0806fd9b164b2325020e362e68aa9fe05",
                r"^content/en/(?:docs|blog)/.*\.md$",
            ),
            Repository(
                "Adityakr4/content",
                "3e2dffd22ccc1b705979495605bbc9c3762572ba",
                r"^files/en-us/(?:learn|glossary|web/(?:guide|progressive_web_apps|"
                r"accessibility|performance|security|media|javascript/guide))/.*\.md$",
            ),
        ),
        max_words=2_000_000,
    ),
)
