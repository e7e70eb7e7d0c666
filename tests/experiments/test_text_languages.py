"""Parsers of German, French, Spanish and Portuguese sources, on small files of their
formats."""

from importlib import import_module

import pytest

from experiments.text.__main__ import LANGUAGES, table_of
from experiments.text.mirrors import LISTS, read_list
from experiments.text.source import Blob

LONG = "Das ist ein ganzer Satz, den man gern liest."
OTHER = "Auch dieser Satz hat genug Wörter, um zu bleiben."
SHORT = "Vielen Dank."
FRENCH = "Cette phrase est assez longue pour rester dans le texte."


def paragraphs(parser, text, path="a/b.xml"):
    module = import_module(f"experiments.text.parsers.{parser}")
    blob = Blob("someone/repository", path, text.encode())
    return [document.paragraphs for document in module.parse([blob])]


def test_parlamint():
    text = f"""<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body><div>
    <note type="speaker">Präsident</note>
    <u ana="#chair"><seg>{OTHER}</seg></u>
    <u ana="#regular"><seg>{LONG[:8]}<note>Beifall</note>{LONG[8:]}</seg>
    <seg>{SHORT}</seg></u></div></body></text></TEI>"""
    assert paragraphs("parlamint", text) == [[LONG]]


def test_bundestag():
    text = f"""<dbtplenarprotokoll><vorspann><p klasse="J">{OTHER}</p></vorspann>
    <sitzungsverlauf><sitzungsbeginn><p klasse="J">{OTHER}</p></sitzungsbeginn>
    <rede><p klasse="redner">Dr. Eva Beispiel (SPD):</p><p klasse="J_1">{LONG}</p>
    <kommentar>({OTHER})</kommentar><p klasse="O">{SHORT}</p>
    <name>Präsidentin:</name><p klasse="J">{OTHER}</p>
    <p klasse="redner">Dr. Eva Beispiel (SPD):</p><p klasse="J">{LONG} „Ja.“</p></rede>
    </sitzungsverlauf></dbtplenarprotokoll>"""
    assert paragraphs("bundestag", text) == [[LONG, f"{LONG} „Ja.“"]]


def test_klexikon():
    text = f"{LONG}\n{OTHER}\n\n== Namen ==\n{OTHER}\n\n{SHORT}\n== Literatur\n{LONG}"
    assert paragraphs("klexikon", text) == [[f"{LONG} {OTHER}", OTHER]]


def test_europarl():
    chunks = "".join(
        f"<ParallelChunk><en>x</en><fr>{text}</fr></ParallelChunk>"
        for text in (
            f"(DE) <Connective>Cette</Connective>{FRENCH[5:]}",
            "Les vux , une uvre, le cur et le nud sont au cur du débat sur la culture.",
        )
    )
    text = f"""<DOCUMENT><Speaker name="President"><ParallelChunk><fr>{FRENCH}</fr>
    </ParallelChunk></Speaker><Speaker name="Ann">{chunks}</Speaker></DOCUMENT>"""
    vows = (
        "Les vœux, une œuvre, le cœur et le nœud sont au cœur du débat sur la culture."
    )
    assert paragraphs("europarl", text) == [[f"{FRENCH} {vows}"]]


def test_belgian_chamber():
    text = f"""<p class=NormalNL>{LONG}</p>
    <p class=NormalFR><span>06.07</span> <b>Ann Lee</b> (PS): {FRENCH}</p>
    <p class=NormalFR><span lang=FR>{FRENCH[:20]}\n{FRENCH[20:]}&nbsp;</span></p>"""
    found = paragraphs("belgian_chamber", text)
    assert found == [[FRENCH, FRENCH[:20] + " " + FRENCH[20:].strip()]]


def test_markdown():
    text = f"""---\ntitle: "x"\n---\n# {FRENCH}\n\n{FRENCH}\n
: La méthode {{{{jsxref("Array.map", "map()")}}}} de {{{{Glossary("HTTP")}}}} rend un
tableau qui est nouveau.\n\n```js\nvar x;\n```\n"""
    macros = "La méthode map() de HTTP rend un tableau qui est nouveau."
    assert paragraphs("markdown", text, "a.md") == [[FRENCH, macros]]


def test_portuguese_assembly():
    text = f"""<debate><utterance speaker-id="-1" speaker-role="president">{LONG}
    </utterance><utterance speaker-id="7" speaker-party="PS">{OTHER}

    Aplausos do PS.</utterance></debate>"""
    assert paragraphs("portuguese_assembly", text) == [[OTHER]]


def test_tables_of_speeches():
    said = f"O SR. ZÉ (PT-SP. Sem revisão do orador.) - {LONG} (Palmas.)\n\t{OTHER}"
    text = f'dataHoraInicio;transcricao\n2003;"{said}"\n2004;"{SHORT}"\n'
    assert paragraphs("speeches_csv", text, "a.csv") == [[LONG, OTHER], []]
    text = f'"","nome","fala"\n"1","Zé","{LONG} "\n'
    assert paragraphs("speeches_csv", text, "a.csv") == [[LONG]]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_source_says_what_it_reads(language):
    sources, _ = table_of(language)
    assert len({source.name for source in sources}) == len(sources)
    for source in sources:
        import_module(f"experiments.text.parsers.{source.parser}")
        if source.wheel is None:
            listed = read_list(LISTS / f"{source.name}.xz")
            assert list(listed) == [one.name for one in source.repositories]
            assert all(listed.values())
