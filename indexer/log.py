"""Log lines for people (text) or programs (JSON), with secrets taken out."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

# The bound on the scheme keeps this linear: error texts quote megabytes of hex, and
# with `*` each of its letters started a scan to the end (32 KB took five seconds).
_USERINFO = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]{0,30}://)[^/@\s'\"]*@", re.IGNORECASE
)
_RPC_PATH = re.compile(
    r"(?P<base>\b(?:https?|wss?)://(?:\*\*\*@)?[^/?#\s'\"]+)(?P<rest>[/?#][^\s'\"]*)",
    re.IGNORECASE,
)
_KEYWORD = re.compile(
    r"\b(?P<key>password|passfile|sslpassword|sslkey|token|secret|api[-_]?key|apikey"
    r"|authorization)(?P<sep>\s*[=:]\s*)"
    r"(?P<value>'[^']*'|(?:bearer |basic )?[^\s'\"&,]+)",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Take credentials out of any text: URLs, connection strings, headers.

    The user part of a URL, everything behind the host of an http or ws URL (that
    is where providers put their keys) and values of words like ``password`` become
    ``***``. What is left still names the host.
    """
    text = _USERINFO.sub(r"\g<scheme>***@", text)
    text = _RPC_PATH.sub(
        lambda m: m["base"] + ("/***" if len(m["rest"]) > 1 else ""), text
    )
    return _KEYWORD.sub(r"\g<key>\g<sep>***", text)


def redact_url(url: str) -> str:
    """Name an endpoint or a database without its credentials."""
    return redact(url)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        line = f"{stamp} {record.levelname.lower():7} {record.getMessage()}"
        fields = getattr(record, "fields", None)
        if fields:
            line += "".join(f" {key}={value}" for key, value in fields.items())
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return redact(line)


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for key, value in (getattr(record, "fields", None) or {}).items():
            entry[key] = redact(value) if isinstance(value, str) else value
        if record.exc_info:
            entry["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(entry, default=str)


def configure(*, log_format: str | None, verbose: int) -> None:
    """Send log lines to stderr.

    ``log_format`` is ``text``, ``json`` or ``None``: text on a terminal, else JSON.
    """
    if log_format is None:
        log_format = "text" if sys.stderr.isatty() else "json"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("indexer").setLevel(logging.DEBUG if verbose else logging.INFO)


def fields(**values: object) -> dict[str, dict[str, object]]:
    """Return ``extra`` for a log call, so that the line carries named values."""
    return {"fields": values}
