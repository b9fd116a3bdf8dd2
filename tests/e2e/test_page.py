"""The page as a person sees it, in a real browser, while the chain is indexed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest

from indexer.devnode.server import DevnodeConfig, running_devnode
from tests.support.browser import Browser, browser
from tests.support.program import Program, run, until, value

DONE = "#tiles > div:nth-child(1) .value"
FAILED = "#tile-failed-count .value"


class Scene(NamedTuple):
    """A chain half planned, a page that looks at it, and a browser."""

    browser: Browser
    page: str
    env: dict[str, str]
    url: str

    def legend(self, state: str) -> int:
        """Return how many heights the map has in a state."""
        said = self.browser.text(f"#legend [data-state={state}] .quiet")
        return int(said.replace(",", "")) if said else 0

    def working(self) -> Program:
        return Program(
            "work", "--concurrency", "1", "--chunk-blocks", "20", env=self.env
        )


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def scene(database_url: str, chromium: Browser) -> Iterator[Scene]:
    config = DevnodeConfig(profile="mixed", height=3000)
    with running_devnode(config) as node:
        env = {"INDEXER_DATABASE_URL": database_url, "INDEXER_RPC_URL": node.url}
        with Program("dashboard", "--port", "0", env=env) as served:
            page = served.expect(r"http://127\.0\.0\.1:\d+/")[0]
            yield Scene(chromium, page, env, database_url)
            chromium.driver.get("about:blank")


def plan(scene: Scene, first: int = 0, end: int = 2000) -> None:
    planned = run(
        "plan",
        "--from",
        str(first),
        "--to",
        str(end),
        "--range-size",
        "100",
        env=scene.env,
    )
    assert planned.returncode == 0, planned.stderr


def test_the_page_lives_shows_a_hole_and_its_filling_and_passes_axe(
    scene: Scene,
) -> None:
    page = scene.browser
    page.open(scene.page)
    page.until(lambda: page.text("#live-text") == "live", "the first answer")
    assert page.text("#map-empty").startswith("Nothing is planned or stored yet.")
    plan(scene)
    with psycopg.connect(scene.url, autocommit=True) as conn:
        conn.execute("delete from indexer.jobs where payload @> '{\"from\": 700}'")
        conn.execute(
            "update indexer.jobs set run_at = now() + interval '1 hour' "
            "where (payload ->> 'from')::int >= 1000"
        )
    page.until(lambda: scene.legend("queued") == 1900, "what is queued")
    page.until(lambda: scene.legend("missing") == 100, "the hole")
    page.until(
        lambda: "run indexer plan again" in page.text("#attention"), "what to do"
    )
    with scene.working():
        page.until(lambda: page.text("#workers td.long"), "the worker")
        page.until(lambda: page.text(DONE) == "45.0 %", "progress without a reload")
        with psycopg.connect(scene.url, autocommit=True) as conn:
            conn.execute("update indexer.jobs set run_at = now()")
            conn.execute("select pg_notify('jobs_ready', 'indexer')")
        page.until(lambda: page.text(DONE) == "95.0 %", "all but the hole")
        page.until(lambda: scene.legend("proven") == 1900, "the map all but the hole")
        assert scene.legend("missing") == 100
        plan(scene)
        page.until(lambda: page.text(DONE) == "100 %", "the hole filled")
        # The devnode's blocks can be proven, so all of them are.
        page.until(lambda: scene.legend("proven") == 2000, "the hole gone from the map")
        assert scene.legend("missing") == 0
    assert page.errors() == []


def test_a_failed_job_and_its_reason_are_shown_and_so_is_its_retry(
    scene: Scene,
) -> None:
    page = scene.browser
    page.open(scene.page, dark=True)
    with psycopg.connect(scene.url, autocommit=True) as conn:
        conn.execute(
            "insert into indexer.jobs (kind, payload) "
            "values ('index_blocks', '{\"from\": 9, \"to\": 3}')"
        )
    with scene.working():
        page.until(lambda: page.text(FAILED) == "1", "the failed job")
    with psycopg.connect(scene.url, autocommit=True) as conn:
        conn.execute(
            "update indexer.chain set contradicted_at = now(), "
            "contradiction = 'block 7 is not the one that was final'"
        )
    page.until(lambda: "block 7 is not" in page.text("#attention"), "contradiction")
    assert "reversed" in page.text("#failed")
    assert "1 failed job" in page.text("#attention")
    command = page.text("#failed code")
    assert re.fullmatch(r"indexer jobs retry \d+", command)
    assert run(*command.split()[1:], env=scene.env).returncode == 0
    page.until(lambda: page.text(FAILED) == "0", "the retried job")
    assert page.errors() == []


def test_a_forgotten_transaction_is_named_by_pid_and_query_within_a_minute(
    scene: Scene,
) -> None:
    page = scene.browser
    page.open(scene.page)
    with psycopg.connect(scene.url) as conn:
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select count(*) from indexer.blocks where extra ? 'secret'")
        page.until(lambda: page.text("#pins"), "who pins vacuum")
        said = page.text("#pins")
        assert f"session {conn.info.backend_pid}" in said
        assert "select count(*) from indexer.blocks where extra ? '…'" in said
        assert f"pg_terminate_backend({conn.info.backend_pid})" in said
    page.until(lambda: not page.text("#pins"), "the end of it")


def test_the_map_is_used_by_keyboard_alone(scene: Scene) -> None:
    plan(scene)
    page = scene.browser
    page.open(scene.page)
    page.until(lambda: scene.legend("queued") == 2000, "the map")
    page.press("#map", "\ue011")
    assert page.text("#map-said").startswith("Blocks 0 to ")
    page.press("#map", "\ue014")
    assert not page.text("#map-said").startswith("Blocks 0 to ")
    whole = page.text("#axis-to")
    page.press("#map", "+")
    page.until(lambda: page.text("#axis-to") != whole, "a part of the map")
    assert page.run("return !document.getElementById('overview').hidden")
    page.press("#map", "\ue00c")
    page.until(lambda: page.text("#axis-to") == whole, "the whole map again")
    page.press("#goto input[name=from]", "150")
    page.press("#goto input[name=to]", "160\n")
    page.until(lambda: page.text("#axis-from") == "150", "the heights asked for")
    assert page.text("#axis-to") == "160"
    assert page.errors() == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_wrong_and_nothing_is_wider_than_the_window(
    scene: Scene, width: int, dark: bool
) -> None:
    plan(scene)
    with psycopg.connect(scene.url, autocommit=True) as conn:
        conn.execute(
            "update indexer.jobs set status = 'failed', last_error = 'it broke' "
            "where payload @> '{\"from\": 700}'"
        )
        conn.execute(
            "insert into indexer.endpoints (name, state, limits) "
            "values ('https://node.example', 'answers', '{\"batch_size\": 20}')"
        )
    page = scene.browser
    page.open(scene.page, width=width, dark=dark)
    page.until(lambda: page.text(FAILED) == "1", "the numbers")
    assert page.violations() == []
    assert (
        page.run(
            "return document.documentElement.scrollWidth <= innerWidth && innerWidth"
        )
        == width
    )
    until(
        lambda: value(scene.url, "select count(*) from indexer.jobs") == 20,
        what="nothing was written by looking",
    )
