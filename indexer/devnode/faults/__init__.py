"""What a node does wrong on purpose.

::

    force       Faults: what is in force, what a request meets
    exchange    one request under faults, stage by stage
    schedule    FaultSchedule: faults by chance that is the same every time
    kinds       KINDS: all kinds by name, with a line on each
    requests    refused, delayed, cut off; limits on batches and rates
    views       another backend: behind, on another fork, of another chain
    errors      calls answered with errors or null
    block_lies, receipt_lies, texts    results that are wrong but well-formed
    batches     replies out of order, missing, doubled, under other ids
    bodies      truncated, cut, slow
    fault, kind, heights, lies         the leaves

In this order a request passes them: request, view, call, batch, body. Calls of
``devnode`` methods alone meet no fault.
"""

from __future__ import annotations

from indexer.devnode.faults.fault import Fault, parse_fault, parse_faults
from indexer.devnode.faults.force import FAULT_HEADER, Faults
from indexer.devnode.faults.kinds import KINDS
from indexer.devnode.faults.schedule import FaultSchedule

__all__ = [
    "FAULT_HEADER",
    "KINDS",
    "Fault",
    "FaultSchedule",
    "Faults",
    "parse_fault",
    "parse_faults",
]
