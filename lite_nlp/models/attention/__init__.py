"""Attention: one module for each kind, or for kinds that differ in one part.

Importing this package imports all of its modules, and each registers its kinds. A new kind is therefore a module here,
a row of facts in ``lite_nlp.config.kinds`` and a formula in ``lite_nlp.budget.closed_form.attention``.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
    importlib.import_module(_module.name)
