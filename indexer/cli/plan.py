"""``indexer plan``."""

from __future__ import annotations

import asyncio
import json

import click

from indexer.cli.heights import height
from indexer.cli.nodes import check_nodes, open_endpoints
from indexer.cli.options import (
    database_options,
    finality_option,
    json_option,
    log_options,
    rpc_options,
)
from indexer.cli.runtime import database_url, open_database, settings
from indexer.config import Config
from indexer.errors import ConfigError
from indexer.ranges import BlockRange
from indexer.services.finality import clamp_to_final
from indexer.services.identity import check_identity
from indexer.services.plan import RANGE_SIZE, Plan
from indexer.services.plan import plan as make_plan


def _end(ctx: click.Context, param: click.Parameter, value: str) -> int | str:
    return value if value == "finalized" else height(ctx, param, value)


@click.command()
@click.option(
    "--from",
    "first",
    callback=height,
    required=True,
    metavar="HEIGHT",
    help="The first height.",
)
@click.option(
    "--to",
    "end",
    callback=_end,
    required=True,
    metavar="HEIGHT|finalized",
    help="The first height that is not covered; 'finalized' covers the finalized one.",
)
@click.option(
    "--range-size",
    type=click.IntRange(1, 10_000_000),
    default=RANGE_SIZE,
    show_default=True,
    help="Blocks a job; jobs are cut at its multiples.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing, only say what would be.")
@rpc_options
@finality_option
@database_options
@log_options
@json_option
def plan(
    first: int,
    end: int | str,
    range_size: int,
    dry_run: bool,
    as_json: bool,
    **given: object,
) -> None:
    """Queue what is missing of a height range.

    Run it again at any time: what is stored or queued is not queued twice. With a
    node, only final heights are planned, and this is said.
    """
    config = settings(**given)
    _check_range(config, first, end)
    with database_url(config) as url:
        asyncio.run(_plan(config, url, first, end, range_size, dry_run, as_json))


def _check_range(config: Config, first: int, end: int | str) -> None:
    if isinstance(end, int) and end <= first:
        raise ConfigError(
            f"--from {first} --to {end} holds no height: --to is the first height that "
            "is not covered, so it must be above --from"
        )
    if config.rpc_url:
        check_nodes(config)
    elif end == "finalized":
        raise ConfigError("--to finalized needs a node: give --rpc-url")


async def _plan(
    config: Config,
    url: str,
    first: int,
    end: int | str,
    range_size: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    async with open_database(config, url, application="plan") as database:
        if config.rpc_url:
            async with open_endpoints(config) as endpoints:
                await check_identity(database, endpoints)
                blocks, notes = await clamp_to_final(
                    endpoints,
                    first=first,
                    end=None if end == "finalized" else int(end),
                    depth=config.finality_depth,
                )
        else:
            blocks = BlockRange(first, int(end) - 1)
            notes = [
                "no node was asked, so nothing was clamped to its finalized height"
            ]
        made = await make_plan(
            database,
            blocks=blocks,
            range_size=range_size,
            dry_run=dry_run,
        )
    _print_plan(made, notes, range_size, dry_run, as_json)


def _print_plan(
    made: Plan, notes: list[str], range_size: int, dry_run: bool, as_json: bool
) -> None:
    disk = None
    if made.bytes_per_block is not None:
        disk = made.bytes_per_block * made.missing_blocks
    if as_json:
        click.echo(
            json.dumps(
                {
                    "blocks": {"from": made.blocks.first, "to": made.blocks.last},
                    "range_size": range_size,
                    "dry_run": dry_run,
                    "index_blocks": [list(each) for each in made.block_jobs],
                    "index_events": [list(each) for each in made.event_jobs],
                    "jobs": len(made.block_jobs) + len(made.event_jobs),
                    "missing_blocks": made.missing_blocks,
                    "queued_before": made.queued_before,
                    "failed_jobs": [each.id for each in made.failed],
                    "estimated_requests": _requests(made),
                    "estimated_bytes": disk,
                    "notes": notes,
                }
            )
        )
        return
    verb = "would queue" if dry_run else "queued"
    click.echo(
        f"blocks {made.blocks} (both included): {verb} "
        f"{len(made.block_jobs)} index_blocks and {len(made.event_jobs)} index_events "
        f"jobs; {made.missing_blocks} blocks are missing, {made.queued_before} of them "
        "were queued before"
    )
    if made.block_jobs or made.event_jobs:
        click.echo(
            f"requests to the node: {_requests(made):,} at most (a block without "
            "transactions needs one, others two), many in a batch"
        )
        click.echo(f"disk: {_disk(disk)}")
    for note in notes:
        click.echo(note)
    for each in made.failed:
        click.echo(
            f"job {each.id} ({each.kind} {each.blocks}) failed: {each.last_error}; "
            f"`indexer jobs retry {each.id}` queues it again"
        )


def _requests(made: Plan) -> int:
    blocks = sum(len(each) for each in made.block_jobs)
    return 2 * blocks + sum(len(each) for each in made.event_jobs)


def _disk(size: int | None) -> str:
    if size is None:
        return (
            "known once a thousand blocks are stored (about 1.5 KB for an empty block, "
            "some 0.4 MB for a full one of mainnet)"
        )
    return f"{size / 1e9:.1f} GB, going by what is stored"
