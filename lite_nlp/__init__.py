"""Small sequence models for the phone: train, count, compress, export and run text-to-text models offline.

Importing this package imports nothing heavy; every part lives in a subpackage that is imported when used.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
