"""The commands: parse, make a Config, call one service, exit code."""

from __future__ import annotations

import signal
import sys

import click

from indexer import __version__
from indexer.cli.demo import demo, devnode
from indexer.cli.jobs import jobs
from indexer.cli.plan import migrate, plan
from indexer.cli.run import follow, work
from indexer.cli.status import status
from indexer.errors import ConfigError, IndexerError
from indexer.log import redact


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="indexer")
def cli() -> None:
    """Index an EVM chain into the PostgreSQL you already run.

    Every option is also a setting of the environment or of a .env file: --rpc-url is
    INDEXER_RPC_URL. Heights: --from is the first one, --to the first one that is not
    covered; printed ranges include both ends.
    """


for command in (migrate, plan, work, follow, status, jobs, devnode, demo):
    cli.add_command(command)


def main() -> None:
    """Run the program; errors become one sentence and an exit code."""
    # Leave through the context managers, so that the embedded server is let go of;
    # work and follow put handlers of their own in place.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        cli.main(prog_name="indexer", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except ConfigError as error:
        click.echo(f"error: {redact(str(error))}", err=True)
        sys.exit(2)
    except IndexerError as error:
        click.echo(f"error: {redact(str(error))}", err=True)
        sys.exit(1)
