"""Exceptions and warnings of this package."""

from __future__ import annotations


class TracerError(Exception):
    """What cannot be done, why, and what to do about it.

    ``cause`` says what went wrong; ``remedy`` what helps, and is empty where the cause says it.
    """

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause}; {remedy}" if remedy else cause)
        self.cause = cause
        self.remedy = remedy


class TracerWarning(UserWarning):
    """Something is missing from a log: it is damaged, was not completed, or events were lost."""
