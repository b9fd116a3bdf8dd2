"""The commands: parse, make a Config, call one service, exit code."""

from __future__ import annotations

import signal
import sys
from importlib import import_module

import click
import psycopg

from indexer import __version__
from indexer.errors import ConfigError, IndexerError
from indexer.log import redact

# Where each command is. They are imported when they are run: web3 alone takes a
# second, and `indexer status` does without it.
_COMMANDS = {
    "migrate": "indexer.cli.migrate",
    "plan": "indexer.cli.plan",
    "work": "indexer.cli.work",
    "follow": "indexer.cli.follow",
    "status": "indexer.cli.status",
    "exporter": "indexer.cli.exporter",
    "dashboard": "indexer.cli.dashboard",
    "verify": "indexer.cli.verify",
    "forget": "indexer.cli.forget",
    "jobs": "indexer.cli.jobs",
    "maintain": "indexer.cli.maintain",
    "devnode": "indexer.cli.demo",
    "demo": "indexer.cli.demo",
    "bench": "indexer.cli.bench",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name]), cmd_name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="indexer")
def cli() -> None:
    """Index an EVM chain into the PostgreSQL you already run.

    Every option is also a setting of the environment or of a .env file: --rpc-url is
    INDEXER_RPC_URL. Heights: --from is the first one, --to the first one that is not
    covered; printed ranges include both ends.
    """


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
    except psycopg.Error as error:
        said = redact(" ".join(str(error).split()))
        click.echo(
            f"error: PostgreSQL refused a statement ({error.sqlstate}): {said}; "
            "nothing of its transaction was kept",
            err=True,
        )
        sys.exit(1)
