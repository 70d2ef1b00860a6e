"""What a compact bundle keeps in place of its members."""

from lite_nlp.export.runtime import Bundle
from lite_nlp.export.runtime.recipes import Recipes, read_recipes


def recipes_of(bundle: Bundle) -> Recipes:
    """What the members of a compact bundle are made of."""
    packed = bundle.manifest.packed
    assert packed is not None
    return read_recipes(packed, bundle.read(packed.recipes.file), source="recipes")
