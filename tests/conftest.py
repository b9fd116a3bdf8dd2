"""Fixtures for every tier: real servers, each test with a database of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import postgres
from tests.support.anvil import Anvil, run_anvil
from tests.support.contract import Chain, build_chain


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URI of the maintenance database of the session's server."""
    with postgres.session_server() as url:
        yield url


@pytest.fixture(scope="session")
def template(server: str) -> Iterator[str]:
    """The name of a migrated database on ``server``."""
    with postgres.migrated_template(server) as name:
        yield name


@pytest.fixture
def database_url(server: str, template: str) -> Iterator[str]:
    """A migrated database (schema ``indexer``), dropped after the test."""
    with postgres.new_database(server, template) as url:
        yield url


@pytest.fixture
def empty_database_url(server: str) -> Iterator[str]:
    """A database without anything in it, dropped after the test."""
    with postgres.new_database(server) as url:
        yield url


@pytest.fixture
def private_server() -> Iterator[postgres.PrivateServer]:
    """A server that the test may stop, kill and restart."""
    with postgres.private_server() as server:
        yield server


@pytest.fixture(scope="session")
def pg15_server() -> Iterator[str]:
    """The URI of the maintenance database of a PostgreSQL 15."""
    with postgres.version_15() as url:
        yield url


@pytest.fixture(scope="session")
def pg15_template(pg15_server: str) -> Iterator[str]:
    """The name of a migrated database on ``pg15_server``."""
    with postgres.migrated_template(pg15_server) as name:
        yield name


@pytest.fixture
def pg15_database_url(pg15_server: str, pg15_template: str) -> Iterator[str]:
    """A migrated database on PostgreSQL 15, dropped after the test."""
    with postgres.new_database(pg15_server, pg15_template) as url:
        yield url


@pytest.fixture(params=["database_url", "pg15_database_url"], ids=["pg18", "pg15"])
def each_database_url(request: pytest.FixtureRequest) -> str:
    """A migrated database on every version whose plans are checked."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """A node that mines only when told to, with two blocks an epoch."""
    with run_anvil("--no-mining", "--slots-in-an-epoch", "2") as node:
        yield node


@pytest.fixture(scope="session")
def anvil_chain() -> Iterator[tuple[Anvil, Chain]]:
    """A node with a chain of every kind of transaction and log, only to be read."""
    with run_anvil("--no-mining", "--slots-in-an-epoch", "2") as node:
        yield node, build_chain(node)
