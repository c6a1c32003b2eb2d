"""The docs site: `make docs`. Everything is built offline; warnings are errors."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from opaq.version import __version__

project = "opaq"
author = "the authors of opaq"
copyright = f"2026, {author}; Apache License 2.0"
release = version = __version__

extensions = ["myst_nb", "sphinx_copybutton", "repository_links"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*")]  # types of arguments that are no public names have no page
python_maximum_signature_line_length = 90

# Markdown. Pages are read in the repository as well, so they use plain Markdown wherever it is enough.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # the worked examples of .hoa have no lexer

# Tutorials are run while the site is built, each in a folder of its own; `-D nb_execution_mode=off` skips that.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "furo"
html_title = f"opaq {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5f8a", "color-brand-content": "#0b5f8a"},
    "dark_css_variables": {"color-brand-primary": "#6cb8e0", "color-brand-content": "#6cb8e0"},
}
copybutton_prompt_text = "$ "
