from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from indexer.config import Config, load_config
from indexer.errors import ConfigError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DATABASE_URL", "RPC_URL", "LEASE", "SCHEMA", "RPC_RPS"):
        monkeypatch.delenv(f"INDEXER_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_flags_win_over_environment_over_env_file_over_defaults(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_config().lease == timedelta(seconds=60)
    (elsewhere / ".env").write_text("INDEXER_LEASE=30s\nPOSTGRES_PASSWORD=x\n")
    assert load_config().lease == timedelta(seconds=30)
    monkeypatch.setenv("INDEXER_LEASE", "5m")
    assert load_config().lease == timedelta(minutes=5)
    assert load_config(lease="1h").lease == timedelta(hours=1)


def test_several_nodes_come_as_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXER_RPC_URL", "http://a, http://b")
    assert load_config().rpc_url == ("http://a", "http://b")
    assert load_config(rpc_url=("http://c",)).rpc_url == ("http://c",)


def test_the_schema_is_a_setting_like_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INDEXER_SCHEMA", "gnosis")
    assert load_config().db_schema == "gnosis"
    assert load_config(db_schema="base").db_schema == "base"


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ({"lease": "soon"}, "--lease"),
        ({"lease": "0.5"}, "--lease"),
        ({"heartbeat": "30"}, "--heartbeat"),
        ({"heartbeat": "0"}, "--heartbeat"),
        ({"poll_interval": "0"}, "--poll-interval"),
        ({"concurrency": 0}, "--concurrency"),
        ({"rpc_rps": -1.0}, "--rpc-rps"),
        ({"db_schema": "pg_mine"}, "--schema"),
        ({"db_schema": "x" * 64}, "--schema"),
        ({"rpc_header": ("no colon",)}, "--rpc-header"),
    ],
)
def test_a_bad_setting_names_its_flag(given: dict[str, object], flag: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(**given)
    assert flag in str(caught.value)


def test_a_complaint_never_shows_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXER_PREPARED_STATEMENTS", "hunter2")
    with pytest.raises(ConfigError) as caught:
        load_config()
    assert "hunter2" not in str(caught.value)


def test_settings_are_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        load_config().concurrency = 3


def test_a_heartbeat_comes_three_times_a_lease_unless_said() -> None:
    assert Config().heartbeat_interval == timedelta(seconds=20)
    assert load_config(heartbeat="5").heartbeat_interval == timedelta(seconds=5)
