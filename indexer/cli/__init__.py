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

# Where each command is, and the first sentence of its help. They are imported when they
# are run, for together they take more than a second.
_COMMANDS = {
    "migrate": (
        "indexer.cli.migrate",
        "Bring the schema up to date; safe from many hosts at once.",
    ),
    "plan": ("indexer.cli.plan", "Queue what is missing of a height range."),
    "work": ("indexer.cli.work", "Claim jobs and run them until told to stop."),
    "follow": (
        "indexer.cli.follow",
        "Keep the tip: store each new block with its job in one transaction.",
    ),
    "status": (
        "indexer.cli.status",
        "Show progress, gaps, queue, failures, workers, the tip and the database.",
    ),
    "exporter": (
        "indexer.cli.exporter",
        "Serve metrics of the queue and the database, once a database.",
    ),
    "dashboard": (
        "indexer.cli.dashboard",
        "Serve a page: the chain's map, throughput, queue, nodes and database.",
    ),
    "verify": (
        "indexer.cli.verify",
        "Prove what is stored from the stored rows alone, and report.",
    ),
    "forget": (
        "indexer.cli.forget",
        "Remove a range of heights with everything that hangs on it.",
    ),
    "jobs": ("indexer.cli.jobs", "List, show, retry and cancel jobs."),
    "maintain": (
        "indexer.cli.maintain",
        "Do one pass of what workers also do on timers.",
    ),
    "devnode": (
        "indexer.cli.demo",
        "Run a deterministic EVM node for demos, tests and benchmarks.",
    ),
    "demo": ("indexer.cli.demo", "Show the whole thing with nothing but Python."),
    "bench": ("indexer.cli.bench", "Measure this deployment with its own settings."),
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), cmd_name)
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, summary) for name, (_, summary) in _COMMANDS.items()]
            )


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
