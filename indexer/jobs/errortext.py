"""Error messages that can always be stored: cleaned, cut, and without secrets."""

from __future__ import annotations

from indexer.log import redact

MAX_ERROR_BYTES = 8192

# What a message is cut to before the secrets are looked for, which takes time with
# its length (0.3 s for a megabyte). The cut keeps far more than is stored.
_MAX_SCANNED = 200_000

UNRECORDABLE = "the error could not be recorded; see the worker's log"


def describe(error: BaseException) -> str:
    """Return ``Type: message`` even where the exception cannot be printed."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - somebody else's __str__
        return f"{name} (its message cannot be printed)"
    return f"{name}: {text}" if text else name


def clean(text: str) -> str:
    """Return a text PostgreSQL takes: no NUL, no lone surrogate, at most 8 KB.

    What cannot be stored becomes U+FFFD and is never left out, so that two
    different messages stay different. Credentials become ``***``.
    """
    text = text[:_MAX_SCANNED].replace("\0", "\N{REPLACEMENT CHARACTER}")
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    data = redact(text).encode()
    if len(data) <= MAX_ERROR_BYTES:
        return data.decode()
    mark = "…"
    return data[: MAX_ERROR_BYTES - len(mark.encode())].decode(errors="ignore") + mark
