"""Put the worker together: the queue's loop with the handlers of both kinds."""

from __future__ import annotations

import gc

from indexer.chain.endpoints import Endpoints
from indexer.config import Config
from indexer.db.connection import Database
from indexer.jobs.lanes import Lanes
from indexer.jobs.settings import WorkerSettings
from indexer.jobs.worker import Worker
from indexer.metrics import Metrics
from indexer.services.chainprofile import make_prover
from indexer.services.endpoints import look_at_queued_history
from indexer.services.finality import Finality
from indexer.services.handlers import Indexing
from indexer.services.identity import check_identity
from indexer.services.telemetry import WorkerMetrics


async def make_worker(
    config: Config,
    database: Database,
    endpoints: Endpoints,
    metrics: Metrics | None = None,
    *,
    lanes: Lanes | None = None,
) -> Worker:
    """Check the nodes and return a worker that is ready to run, in all lanes or these.

    Raises WrongChain where a node serves another chain than the schema holds.
    """
    await check_identity(database, endpoints)
    await look_at_queued_history(database, endpoints)
    indexing = Indexing(
        database,
        endpoints,
        Finality(endpoints, config.finality_depth),
        await make_prover(database, endpoints, level=config.verify),
        chunk_blocks=config.chunk_blocks,
    )
    if metrics is not None:
        metrics.inflight_bytes.set_function(lambda: indexing.budget.used)
    return Worker(
        database,
        handlers=indexing.handlers(),
        settings=worker_settings(config),
        lanes=lanes,
        listen_url=config.listen_url,
        observer=None if metrics is None else WorkerMetrics(metrics),
    )


def worker_settings(config: Config) -> WorkerSettings:
    """Return the part of the settings that the queue's loop needs."""
    return WorkerSettings(
        concurrency=config.concurrency,
        lease=config.lease,
        heartbeat=config.heartbeat,
        poll_interval=config.poll_interval,
        grace=config.grace,
        job_deadline=config.job_deadline,
        max_errors=config.max_errors,
        max_lost_leases=config.max_lost_leases,
        claim_batch=config.claim_batch,
        history_retention=config.history_retention,
    )


def pool_size(config: Config) -> int:
    """Connections a worker's pool may open: one a claim that writes, and two spare.

    A claim holds a connection only while it writes a chunk, so half of them is plenty;
    the heartbeat and LISTEN have one more each, outside the pool.
    """
    return max(4, (config.concurrency + 1) // 2 + 2)


# Rows live for a chunk and hold no cycles, so looking for cycles among them at every
# 700 new objects, as shipped, is a fifth to a third of a worker's CPU for nothing.
# Measured on dense blocks: 4.8 ms of decoding become 3.0.
_OBJECTS_A_COLLECTION = 100_000


def tune_collector() -> None:
    """Collect cycles seldom, and never look again at what is there by now.

    For a whole process, so commands call it and nobody else.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_A_COLLECTION, 20, 50)
