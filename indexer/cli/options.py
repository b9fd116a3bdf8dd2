"""Options that several commands share; each is named like its setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Decorator = Callable[[_Command], _Command]


def _together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


database_options = _together(
    click.option(
        "--database-url",
        metavar="URL",
        help="PostgreSQL to use. [default: an embedded server, started as needed]",
    ),
    click.option(
        "--schema",
        "db_schema",
        metavar="NAME",
        help="PostgreSQL schema; one holds one chain. [default: indexer]",
    ),
    click.option(
        "--prepared-statements",
        type=click.Choice(["auto", "off"]),
        help="Prepare statements, or not; auto is off behind a pooler.",
    ),
)

log_options = _together(
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        help="[default: text on a terminal, json otherwise]",
    ),
    click.option("-v", "--verbose", count=True, help="Say more."),
)

rpc_options = _together(
    click.option(
        "--rpc-url",
        multiple=True,
        metavar="URL",
        help="Node to ask: http(s)://, ws(s):// or an IPC path; may be repeated.",
    ),
    click.option(
        "--rpc-header",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="HTTP header for every request; may be repeated.",
    ),
    click.option(
        "--rpc-rps",
        type=float,
        metavar="N",
        help="Requests a second at most. [default: learned from the node]",
    ),
)

finality_option = click.option(
    "--finality-depth",
    type=click.IntRange(min=0),
    metavar="N",
    help="Blocks below the head that are final, for nodes without a finalized tag.",
)

listen_option = click.option(
    "--listen-url",
    metavar="URL",
    help="Direct PostgreSQL URL for LISTEN, where --database-url is a pooler's.",
)

verify_option = click.option(
    "--verify",
    type=click.Choice(["auto", "strict", "warn", "off"]),
    help="How much of what the chain commits to is proven before it is stored.",
)

metrics_option = click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Serve /metrics, /health and /ready on this port.",
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
