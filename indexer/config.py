"""Settings: flags over environment over ``.env`` over defaults; frozen.

This is the only reader of the environment. ``--rpc-rps`` is ``INDEXER_RPC_RPS``, and
so for every flag.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from indexer.errors import ConfigError
from indexer.log import redact

_DURATION = re.compile(r"^(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h|d)?$")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SCHEMA_NAME = re.compile(r"^[^\x00]{1,63}$")


def parse_duration(value: object) -> object:
    """Read ``90``, ``90s``, ``5m``, ``1h`` or ``30d``; a bare number is seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return timedelta(seconds=value)
    if not isinstance(value, str):
        return value
    match = _DURATION.match(value.strip())
    if match is None:
        raise ValueError("is not a duration like 90, 90s, 5m, 1h or 30d")
    return timedelta(seconds=float(match["number"]) * _UNITS[match["unit"] or "s"])


class Config(BaseSettings):
    """Every setting, with its default."""

    model_config = SettingsConfigDict(
        env_prefix="INDEXER_",
        env_file=".env",
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    database_url: str | None = None
    listen_url: str | None = None
    prepared_statements: Literal["auto", "off"] = "auto"
    db_schema: str = Field(default="indexer", validation_alias="INDEXER_SCHEMA")

    rpc_url: Annotated[tuple[str, ...], NoDecode] = ()
    rpc_header: Annotated[tuple[str, ...], NoDecode] = ()
    rpc_rps: float | None = Field(default=None, gt=0)
    finality_depth: int | None = Field(default=None, ge=0)
    verify: Literal["auto", "strict", "warn", "off"] = "auto"

    concurrency: int = Field(default=10, ge=1, le=1000)
    processes: int = Field(default=1, ge=1, le=256)
    lease: timedelta = timedelta(seconds=60)
    heartbeat: timedelta | None = None
    poll_interval: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=30)
    job_deadline: timedelta | None = None
    max_errors: int = Field(default=5, ge=1)
    max_lost_leases: int = Field(default=20, ge=1)
    claim_batch: int | None = Field(default=None, ge=1)
    chunk_blocks: int | None = Field(default=None, ge=1)
    history_retention: timedelta = timedelta(days=30)
    metrics_port: int | None = Field(default=None, ge=0, le=65535)

    log_format: Literal["text", "json"] | None = None
    verbose: int = 0

    @field_validator(
        "lease",
        "heartbeat",
        "poll_interval",
        "grace",
        "job_deadline",
        "history_retention",
        mode="before",
    )
    @classmethod
    def _read_duration(cls, value: object) -> object:
        return parse_duration(value)

    @field_validator("rpc_url", "rpc_header", mode="before")
    @classmethod
    def _read_list(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("db_schema")
    @classmethod
    def _check_schema_name(cls, value: str) -> str:
        if not _SCHEMA_NAME.match(value) or value.lower().startswith("pg_"):
            raise ValueError("is not a name PostgreSQL takes for a schema")
        return value

    @model_validator(mode="after")
    def _check_times(self) -> Config:
        if self.lease < timedelta(seconds=1):
            raise ValueError("--lease must be at least a second")
        if self.heartbeat is not None and not (
            timedelta(0) < self.heartbeat <= self.lease / 3
        ):
            raise ValueError(
                "--heartbeat must be at most a third of --lease, so that two lost "
                "heartbeats cost no claim"
            )
        if self.poll_interval <= timedelta(0):
            raise ValueError("--poll-interval must be more than 0")
        return self

    @property
    def heartbeat_interval(self) -> timedelta:
        """The given interval, else a third of the lease."""
        return self.heartbeat if self.heartbeat is not None else self.lease / 3

    @property
    def rpc_headers(self) -> dict[str, str]:
        """``--rpc-header 'Name: value'`` as a mapping."""
        headers = {}
        for line in self.rpc_header:
            name, colon, value = line.partition(":")
            if not colon or not name.strip():
                raise ConfigError("--rpc-header looks like 'Name: value'")
            headers[name.strip()] = value.strip()
        return headers


def load_config(**given: Any) -> Config:  # noqa: ANN401 - click's values as they come
    """Make the settings from what was given on the command line and around it.

    ``None`` and empty tuples count as not given. Raises ConfigError, naming the
    flag and never the value, which may be a secret.
    """
    flags = {key: value for key, value in given.items() if value not in (None, ())}
    try:
        config = Config(**flags)
    except ValidationError as error:
        raise ConfigError("; ".join(_complaints(error))) from None
    _ = config.rpc_headers
    return config


def _complaints(error: ValidationError) -> list[str]:
    complaints = []
    for problem in error.errors(include_url=False, include_input=False):
        text = redact(str(problem["msg"])).removeprefix("Value error, ")
        place = ".".join(str(part) for part in problem["loc"])
        place = place.removeprefix("INDEXER_").lower().replace("db_schema", "schema")
        flag = f"--{place.split('.')[0].replace('_', '-')}" if place else ""
        complaints.append(text if text.startswith("--") else f"{flag}: {text}".strip())
    return complaints
