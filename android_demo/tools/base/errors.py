"""The one error of the build."""

__all__ = ["BuildError"]


class BuildError(Exception):
    """The build cannot go on: the message names the thing, what was expected and what was found."""
