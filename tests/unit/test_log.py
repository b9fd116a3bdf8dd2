from __future__ import annotations

import io
import json
import logging

import pytest

from indexer.log import configure, redact

SECRET = "hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://user:{SECRET}@host:5432/db",
        f"postgres://user:{SECRET}@h1,h2/db?sslmode=require",
        f"postgresql://host/db?user=u&password={SECRET}",
        f"host=h dbname=d user=u password={SECRET}",
        f"host=h password='{SECRET} with spaces' user=u",
        f"https://mainnet.infura.io/v3/{SECRET}",
        f"https://rpc.example/?apikey={SECRET}",
        f"https://rpc.example/#{SECRET}",
        f"wss://user:{SECRET}@rpc.example",
        f"wss://rpc.example/{SECRET}/path?x=1",
        f"http://[::1]:8545/{SECRET}",
        f"HTTPS://RPC.EXAMPLE/{SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}",
        f"x-api-key: {SECRET}",
        f"api_key={SECRET}",
        f"token={SECRET}&other=1",
        f"cannot connect to 'https://a.b/{SECRET}': refused",
        f"secret = {SECRET}",
    ],
)
def test_no_form_of_url_or_header_keeps_its_secret(text: str) -> None:
    assert SECRET not in redact(text)
    assert SECRET not in redact(f"before {text} after")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"https://mainnet.infura.io/v3/{SECRET}", "mainnet.infura.io"),
        (f"postgresql://user:{SECRET}@db.example:5432/chain", "db.example:5432/chain"),
        ("block 17 of 0xabc", "block 17 of 0xabc"),
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
    ],
)
def test_what_names_the_place_is_kept(text: str, kept: str) -> None:
    assert kept in redact(text)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_lines_are_redacted_too(
    log_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root = logging.getLogger()
    before = root.handlers[:]
    try:
        configure(log_format=log_format, verbose=0)
        logger = logging.getLogger("indexer.test")
        logger.info(
            "asking %s",
            f"https://h/{SECRET}",
            extra={"fields": {"url": f"https://h/{SECRET}", "rows": 3}},
        )
        try:
            raise ValueError(f"password={SECRET}")
        except ValueError:
            logger.exception("failed")
    finally:
        root.handlers[:] = before
    written = stream.getvalue()
    assert SECRET not in written
    assert "https://h/***" in written
    if log_format == "json":
        first = json.loads(written.splitlines()[0])
        assert first["rows"] == 3
