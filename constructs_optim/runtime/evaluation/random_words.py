"""The words of random prompts: common ones, so that most are one token."""

from __future__ import annotations

_VOCABULARY = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work number night point home water room mother area money "
    "story fact month lot right study book eye job word business issue side kind head house service friend father "
    "power hour game line end member law car city name team minute idea body back parent face level office door health"
)
WORDS = _VOCABULARY.split()
"""The words to choose from."""
