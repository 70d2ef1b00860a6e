"""The templates of pages and pictures. Imports no torch."""

from typing import Final

import jinja2

__all__ = ["ENVIRONMENT"]

ENVIRONMENT: Final = jinja2.Environment(
    loader=jinja2.PackageLoader("lite_nlp.budget.reporting"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
