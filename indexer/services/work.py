"""Put the worker together: the queue's loop with the handlers of both kinds."""

from __future__ import annotations

from indexer.chain.endpoints import Endpoints
from indexer.config import Config
from indexer.db.connection import Database
from indexer.jobs.worker import Worker, worker_name
from indexer.services.finality import Finality
from indexer.services.handlers import Indexing
from indexer.services.identity import check_identity


async def make_worker(
    config: Config, database: Database, endpoints: Endpoints
) -> Worker:
    """Check the nodes and return a worker that is ready to run.

    Raises WrongChain where a node serves another chain than the schema holds.
    """
    await check_identity(database, endpoints)
    indexing = Indexing(
        database,
        endpoints,
        Finality(endpoints, config.finality_depth),
        chunk_blocks=config.chunk_blocks,
    )
    return Worker(
        database,
        handlers=indexing.handlers(),
        name=worker_name(),
        listen_url=config.listen_url or database.url,
        concurrency=config.concurrency,
        lease=config.lease,
        heartbeat=config.heartbeat_interval,
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
