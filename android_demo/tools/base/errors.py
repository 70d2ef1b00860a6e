"""The build's error type."""

__all__ = ["BuildError"]


class BuildError(Exception):
    """A failure that ends the build: the message names the subject, what was expected and what was found."""
