"""Configuration of Sphinx: `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

project = "spacy-elmo"
copyright = "the spacy-elmo developers, MIT licence"  # noqa: A001
exclude_patterns = ["_build"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    # Those of docs/extensions
    "docstrings",
    "mathml",
    "error_codes",
    "commands",
    "settings_tables",
]

html_theme = "furo"
html_title = "spacy-elmo"
html_static_path = ["static"]
html_css_files = ["site.css"]
smartquotes = False  # options have two hyphens

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
# Formulas as MathML, which browsers draw without a script from another host.
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# What the inventories of other projects would resolve, and aliases of types of ours.
nitpick_ignore_regex = [
    (r"py:class", r"spacy_elmo\.bilm\.weights\.stored\.Mix"),
    (
        r"py:.*",
        r"(torch|numpy|np|spacy|thinc|pydantic|typing|collections|pathlib)(\..*)?",
    ),
    (r"py:exc", r".*(Error|Exception).*"),
    (
        r"py:(class|obj)",
        r"(nn\.Module|Tensor|Doc|Language|Model|Path|Any|Dataset|object)",
    ),
]
