"""Models of other libraries as targets; each library is needed only where it is used."""

from uivi.integrations.recognition import recognise

__all__ = ["recognise"]
