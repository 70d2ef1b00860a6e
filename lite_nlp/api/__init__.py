"""The operations of the library, one module each: called by the commands and offered by ``import lite_nlp``."""
